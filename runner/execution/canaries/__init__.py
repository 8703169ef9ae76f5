"""The scripts of the canary, frozen each."""
