"""An algorithm of your own: local steps, then an exchange of whole models.

Run it with:       mdfl sweep ./my_name.py        (from a checkout: python -m launch.sweep --config=my_name.py)
Use it elsewhere:  mdfl sweep digits --use=my_name.py --config.algorithm.name=my_name
Test it with:      python -m pytest test_my_name.py
"""

import jax

from mdfl_jax.algorithms.dpsgd import local_then
from mdfl_jax.algorithms.local import LocalNumbers, Settings
from mdfl_jax.algorithms.registry import register
from mdfl_jax.config import default_config
from mdfl_jax.core.message_bits import messages_sent
from mdfl_jax.core.numbers import number
from mdfl_jax.exchange.gossip import mix


class MyNameNumbers(LocalNumbers):
    trust: float = number(0.5, "how far a client goes towards the average of its neighbourhood", at_least=0, at_most=1)


@register("my_name", MyNameNumbers)
def my_name(settings=Settings()):
    """D-PSGD whose clients go only a part of the way to the average."""

    def exchange(hparams, key, links, params):  # params: the models of all clients, [N, ...]
        average = mix(links.mix, params, settings.mixing_bound, links.senders)
        towards = jax.tree.map(lambda own, other: own + hparams.trust * (other - own), params, average)
        return towards, messages_sent(links.adjacency, links.senders)

    return local_then(settings, exchange, ("adjacency", "mix"))


def get_config():
    config = default_config()
    config.name = "my_name"
    config.algorithm.lr = 0.2
    config.sweep = "algorithm.name=dpsgd,my_name"
    config.baseline = "algorithm.name=dpsgd"
    return config
