"""What a study writes: its folder, metrics, history, summary, checkpoints."""
