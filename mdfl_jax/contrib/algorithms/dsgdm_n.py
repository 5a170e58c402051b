"""DSGDm-N: D-PSGD whose clients take local steps with Nesterov momentum."""

from mdfl_jax.algorithms.dpsgd import gossip, local_then
from mdfl_jax.algorithms.local import LocalNumbers, Settings, sgd
from mdfl_jax.algorithms.registry import register
from mdfl_jax.core.numbers import number
from mdfl_jax.core.types import Algorithm


class NesterovNumbers(LocalNumbers):
    """The numbers of DSGDm-N."""

    momentum: float = number(0.9, "Nesterov momentum, beta", at_least=0, below=1, source="Lin et al., ICML 2021")


@register(
    "dsgdm_n",
    NesterovNumbers,
    ignores=("optimizer", "compressor"),
    formula="m <- beta m + g;  x+ = W (x - eta (beta m + g))",
    cite="lin2021: its baseline",
)
def dsgdm_n(settings: Settings = Settings()) -> Algorithm:
    """DSGDm-N: local steps with Nesterov momentum, then gossip.

    The momentum stays with its client. Several local steps are allowed; the paper takes one. With dpsgd and
    algorithm.momentum the momentum is that of a heavy ball: x <- W (x - eta m).
    """
    nesterov = settings._replace(optimizer=sgd(settings.schedule, nesterov=True))
    return local_then(nesterov, gossip(settings), ("adjacency", "mix"))
