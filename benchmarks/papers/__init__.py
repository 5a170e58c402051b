"""One script a paper: its figures from our configs, our values beside its claims."""
