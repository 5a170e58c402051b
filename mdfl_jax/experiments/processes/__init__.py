"""Divides the work of one study among several processes, which talk over sockets."""
