"""Data sets: their sources and formats, and how their samples are divided among the clients."""
