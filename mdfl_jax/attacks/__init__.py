"""Attackers: clients that send, or learn from, something else than they should (`registry`, and a file a kind)."""
