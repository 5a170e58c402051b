"""The bounds and probabilities that the papers prove, as functions of numbers, computed on the host."""
