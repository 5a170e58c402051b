"""Further attacks and further robust rules of aggregation."""
