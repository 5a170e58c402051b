"""Epidemic learning: clients send models to random peers, drawn again each round; a receiver averages the models."""

from collections.abc import Callable

import jax

from mdfl_jax.algorithms.dpsgd import local_then
from mdfl_jax.algorithms.local import LocalNumbers, Number, Settings
from mdfl_jax.algorithms.registry import register
from mdfl_jax.contrib.algorithms.peers import random_receivers, random_regular_part
from mdfl_jax.core.links import Senders
from mdfl_jax.core.numbers import number
from mdfl_jax.core.rng import own_draws
from mdfl_jax.core.sharding import everywhere
from mdfl_jax.core.types import Algorithm, ClientParams, Exchanged, Links, RoundContext
from mdfl_jax.metrics.values import HEARD
from mdfl_jax.networks.mixing import uniform


class EpidemicNumbers(LocalNumbers):
    """The numbers of epidemic learning."""

    # 7 is ceil(log2 N) for the 96 clients of the paper.
    num_peers: int = number(7, "receivers that a client draws, s", at_least=0, source="De Vos et al. 2023")


def _make(settings: Settings, draw: Callable[[jax.Array, jax.Array, Number, Senders], jax.Array]) -> Algorithm:
    def exchange(
        hparams: EpidemicNumbers, links: Links, params: ClientParams, context: RoundContext
    ) -> tuple[Exchanged, Links]:
        of_links = lambda *links: draw(own_draws(context.key), links[0], hparams.num_peers, links[1])  # noqa: E731
        received = everywhere(of_links, links.adjacency, links.senders)
        drawn = links._replace(adjacency=received, mix=uniform(received, links.senders))
        return settings.aggregate(hparams, drawn, params, context), drawn

    return local_then(settings, exchange, ("adjacency",))._replace(metrics=(HEARD,))


@register(
    "epidemic",
    EpidemicNumbers,
    ignores=("compressor",),
    formula="y = x - eta g, sent to s random others;  x_i+ = (y_i + sum of the y_j received) / (1 + number received)",
    cite="devos2023: algorithm 1, local sampling",
)
def epidemic(settings: Settings = Settings()) -> Algorithm:
    """EL-Local, epidemic learning: clients send their models to random peers, drawn again in each round.

    The peers are drawn uniformly among the clients that hear the sender. The paper's setting is the complete graph,
    where all others hear it. If fewer than s clients hear it, it sends to all of them. The weights of the network's
    mixing matrix are not used.
    """
    return _make(settings, random_receivers)


@register(
    "epidemic_oracle",
    EpidemicNumbers,
    ignores=("compressor",),
    formula="y = x - eta g;  x_i+ = (y_i + sum of its peers' y_j) / (1 + number of peers)",
    cite="devos2023: algorithm 1",
)
def epidemic_oracle(settings: Settings = Settings()) -> Algorithm:
    """EL-Oracle, epidemic learning: the exchanges of a round form a random s-regular graph.

    The average is the one of `epidemic`, and every link is used in both directions. In a network that is not complete,
    each client has as close to s links as its neighbours allow (`random_regular_part`).
    """
    return _make(settings, random_regular_part)
