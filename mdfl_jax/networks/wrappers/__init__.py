"""Wrappers of networks: each takes a network and returns one."""
