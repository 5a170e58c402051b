"""Low-rank adapters: a model's matrices stay as they are, and clients train and exchange small products beside them."""
