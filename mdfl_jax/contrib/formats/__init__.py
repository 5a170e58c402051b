"""Further formats of data sets and of traces."""
