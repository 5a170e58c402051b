"""The panels of a report: each file of this folder registers one picture."""
