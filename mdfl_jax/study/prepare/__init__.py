"""Builds the task, the network and the algorithm of a configuration, and their traced numbers."""
