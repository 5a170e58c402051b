"""The shipped studies. Each file returns the configuration of one study; its docstring says how to run it."""
