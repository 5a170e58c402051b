"""Several processes at one study, joined by sockets."""
