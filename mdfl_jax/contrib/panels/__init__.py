"""Further figures and panels of the page of a study."""
