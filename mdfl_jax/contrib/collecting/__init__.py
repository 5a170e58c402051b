"""Clients that collect their samples on the way, and samples that drift."""
