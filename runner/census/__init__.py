"""The census of a program: the operators it calls, with their shapes and their share of its time."""
