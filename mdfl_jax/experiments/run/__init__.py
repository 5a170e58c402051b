"""A study made ready, and run: batches of runs, evaluation after evaluation."""
