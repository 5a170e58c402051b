"""Further formats of graphs."""
