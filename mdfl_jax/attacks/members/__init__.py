"""The attacks, near relatives in one file."""
