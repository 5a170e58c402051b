"""Robust aggregation rules, each written for one client (`neighbourhood`)."""
