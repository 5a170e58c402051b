"""Further worlds in which policies move clients."""
