"""The configuration of a study: its fields, their checks, and the points of its sweep."""
