"""What the papers prove, as functions of numbers, on the host."""
