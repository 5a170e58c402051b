"""Personal models: algorithms in which a client keeps a model of its own, and fine-tuning before an evaluation."""
