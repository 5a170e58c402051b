"""Studies: each file returns the configuration of one, and says how it is run and what to expect."""
