"""Several studies as one, in all tables, figures and panels: `mdfl report runs/one runs/two`."""
