"""Models of tokens and other sequences: an LSTM and a transformer encoder."""
