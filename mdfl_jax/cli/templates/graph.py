"""A graph of your own: who hears whom, without places.

Run it with:       mdfl sweep ./my_name.py        (from a checkout: python -m launch.sweep --config=my_name.py)
Use it elsewhere:  mdfl sweep graphs_digits --use=my_name.py --config.sweep=network.graph=ring,my_name
Test it with:      python -m pytest test_my_name.py
"""

from mdfl_jax.config import default_config
from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.networks.graphs import GRAPHS, Graph, on_ring


class MyNameNumbers(Numbers):
    hops: int = number(2, "how far apart on the circle two clients still hear each other", at_least=1)


def draw(params, key, num_clients):  # [N, N] bool: [i, j] is true where i hears j
    apart = on_ring(num_clients)
    return (apart > 0) & (apart <= params.numbers.hops)


GRAPHS.register("my_name", MyNameNumbers, "Each hears the nearest on a circle, on both sides.")(
    Graph(draw, regular=True)  # all clients have the same number of links
)


def get_config():
    config = default_config()
    config.name = "my_name"
    config.network.graph = "my_name"
    config.sweep = "graph.hops=1,2,4"
    return config
