"""Differential privacy: clipped and noised gradients, and the account of what each client has spent."""
