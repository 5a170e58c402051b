"""Differential privacy: clipped gradients and messages with noise, and the account of what each client has spent."""
