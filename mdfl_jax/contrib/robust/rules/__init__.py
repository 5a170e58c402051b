"""Further robust rules, near relatives in one file."""
