"""Further rules of movement."""
