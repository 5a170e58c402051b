"""Weights of torchvision's ResNets, from which a study can start."""
