"""Further formats of the files of a data directory."""
