"""Further formats of traces."""
