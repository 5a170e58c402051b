"""A study as an environment, in which policies for mobile clients are trained."""
