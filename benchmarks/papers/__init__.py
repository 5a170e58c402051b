"""One script per paper. It computes the paper's figures with our configs and prints our values and its claims."""
