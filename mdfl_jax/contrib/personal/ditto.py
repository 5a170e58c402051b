"""Ditto: a shared model that is exchanged, and beside it a personal model of each client that is held near it."""

from typing import Any, NamedTuple

import jax

from mdfl_jax.algorithms.dpsgd import DPSGDState, dpsgd
from mdfl_jax.algorithms.local import LocalNumbers, Settings, init_optimizer, local_steps, near
from mdfl_jax.algorithms.registry import register
from mdfl_jax.contrib.personal.shared import shared_model_accuracy
from mdfl_jax.core.numbers import Setting, number
from mdfl_jax.core.types import Algorithm, ClientParams, Gradient, Links, RoundContext, RoundStats


class DittoState(NamedTuple):
    """The state that one round hands to the next.

    Attributes:
      shared: the state of D-PSGD, with the shared models x.
      personal: [N, ...] the personal models v, which are never sent.
      opt_state: [N, ...] their optimiser states.
    """

    shared: DPSGDState
    personal: ClientParams
    opt_state: Any


class DittoNumbers(LocalNumbers):
    """The numbers of Ditto."""

    personal_proximal: float = number(
        1.0,
        "Ditto's lambda: a step of the personal model v adds lambda (v - x) to its gradient, where x is the shared "
        "model at the beginning of the round",
        at_least=0,
        source="the authors' code, which tries 0.1, 1 and 2",
    )

    def notes(self, setting: Setting) -> list[str]:
        """Note that nothing holds the personal models near the shared ones."""
        if self.personal_proximal:
            return []
        return ["algorithm.personal_proximal is 0, at which the personal models of ditto are those of local_only"]


@register(
    "ditto",
    DittoNumbers,
    ignores=("compressor",),
    formula="x+ = W (x - eta grad f(x));  v+ = v - eta (grad f(v) + lambda (v - x))",
    cite="li2021; lian2017",
)
def ditto(settings: Settings = Settings()) -> Algorithm:
    """Ditto: D-PSGD of a shared model, and a personal model that is held near it. The personal model is evaluated.

    In place of the paper's server, gossip makes the shared models. Each personal step uses the minibatch of the
    shared step of its number, as in the authors' code, and the same optimiser. FedProx's term holds the shared model
    alone.
    """
    shared, own = dpsgd(settings), settings._replace(proximal=False)

    def init(hparams: DittoNumbers, client_params: ClientParams) -> DittoState:
        optimizer = settings.optimizer(hparams)
        return DittoState(shared.init(hparams, client_params), client_params, init_optimizer(optimizer, client_params))

    def do_round(
        hparams: DittoNumbers, state: DittoState, links: Links, context: RoundContext
    ) -> tuple[DittoState, RoundStats]:
        def held(gradient: Gradient) -> Gradient:
            return near(gradient, state.shared.params, hparams.personal_proximal)

        with jax.named_scope("personal"):
            personal, opt_state, _ = local_steps(own, hparams, state.personal, state.opt_state, context, held)
        following, stats = shared.round(hparams, state.shared, links, context)
        return DittoState(following, personal, opt_state), stats

    accuracy = shared_model_accuracy(lambda state: state.shared.params)
    whole = shared._replace(init=init, round=do_round, params=lambda state: state.personal, metrics=(accuracy,))
    return whole._replace(traits=shared.traits._replace(unsent=True))
