"""Streaming data: clients collect their samples as they move, and samples drift."""
