"""Further partitions: unequal sizes, balanced Dirichlet labels, and the owners or counts of a file."""
