"""The map of a study as a moving picture."""
