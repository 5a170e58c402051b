"""Writes the results of a study: its workdir, metrics, history, summary and checkpoints."""
