"""The models that come with the package. A file of this folder registers its models in `MODELS`."""
