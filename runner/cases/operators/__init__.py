"""Single operators, a module for each kind."""
