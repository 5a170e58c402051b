"""Further attacks, near relatives in one file."""
