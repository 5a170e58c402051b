"""What a study will take, before it is run: memory, FLOPs, and what the compilers of other devices say."""
