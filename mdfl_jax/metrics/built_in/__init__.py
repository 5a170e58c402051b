"""The metrics that come with the package. A file of this folder registers its metrics in `METRICS`."""
