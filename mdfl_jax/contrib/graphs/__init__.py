"""Further graphs."""
