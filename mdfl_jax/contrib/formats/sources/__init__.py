"""Readers of data sets that other libraries have prepared."""
