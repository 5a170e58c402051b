"""Estimates, before a study is run, what it needs: memory, FLOPs, and what the compilers of other devices say."""
