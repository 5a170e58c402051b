"""Prepares a study and runs it, batch after batch and evaluation after evaluation."""
