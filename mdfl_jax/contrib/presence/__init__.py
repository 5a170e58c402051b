"""Clients that come and go, whatever the network: by a Markov chain, a Poisson process, hours of a day or a file."""
