"""The shared model: frozen records and enumerations that every room may import. Standard library only."""
