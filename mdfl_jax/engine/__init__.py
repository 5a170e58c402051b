"""The engine: one simulation, compiled and mapped over runs."""
