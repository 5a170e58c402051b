"""Which fixed graph spreads knowledge best? D-PSGD over five graphs of 16 clients, on handwritten digits.

Command:   mdfl sweep graphs_digits
Expected:  ring 78 %; torus, exponential and random_regular 90 to 91 %; complete 94 %.
Measured:  98 s on two CPU cores that ran other work at the same time; five programs were compiled.
"""

from ml_collections import ConfigDict

from configs import digits

GRAPHS = ("ring", "torus", "exponential", "random_regular", "complete")


def get_config() -> ConfigDict:
    config = digits.get_config()
    config.name = "graphs_digits"
    config.title = "Five graphs that tie sixteen clients"
    config.sweep = f"network.graph={','.join(GRAPHS)}"
    config.baseline = "network.graph=ring"
    config.seeds = 3
    config.rounds = 200

    config.network.num_clients = 16
    config.network.num_mobile = 0
    config.graph.degree = 4  # the degree of random_regular, equal to that of the torus
    return config
