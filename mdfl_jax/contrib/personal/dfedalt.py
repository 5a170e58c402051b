"""DFedAlt and DFedSalt: local steps on the personal leaves of a model, then on the shared ones, which are exchanged."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax

from mdfl_jax.algorithms.dfedsam import sharpness_aware
from mdfl_jax.algorithms.local import LocalNumbers, Settings, init_optimizer, local_steps
from mdfl_jax.algorithms.registry import register
from mdfl_jax.contrib.personal.shared import READ, exchange, traits
from mdfl_jax.core.numbers import number
from mdfl_jax.core.rng import number_of
from mdfl_jax.core.trees import chosen_leaves, joined_leaves, trained, with_trained
from mdfl_jax.core.types import Algorithm, ClientParams, Gradient, Links, RoundContext, RoundStats

PERSONAL = number_of("personal steps")  # folded into the key of a round or of an evaluation, for their minibatches


class DFedAltState(NamedTuple):
    """The models [N, ...], and the optimiser states of their personal and of their shared leaves."""

    params: ClientParams
    personal: Any
    shared: Any


class DFedAltNumbers(LocalNumbers):
    """The numbers of DFedAlt."""

    personal_steps: int = number(
        1,
        "local steps on the personal leaves, K_v; algorithm.local_steps are those on the shared ones, K_u",
        static=True,
        at_least=1,
        part="algorithm.local_epochs=0",
    )


class DFedSaltNumbers(DFedAltNumbers):
    """The numbers of DFedSalt."""

    rho: float = number(0.01, "radius of the perturbation of the shared leaves", at_least=0)


def alternating(
    settings: Settings, seen: Callable[[Any, Gradient], Gradient] = lambda hparams, gradient: gradient
) -> Algorithm:
    """Make an algorithm that takes local steps on the personal leaves, then on the shared ones, and exchanges these.

    The shared leaves stay during the first steps, and the new personal leaves during the second ones. Batch statistics
    follow the samples of both. Where no leaf is personal, there are no first steps.

    Args:
      settings: the optimiser, the steps or epochs, and the patterns of the shared leaves.
      seen: (hparams, gradient) -> the gradient function that the steps on the shared leaves use.
    """

    def chosen(model: ClientParams, shared: bool) -> ClientParams:
        return with_trained(model, chosen_leaves(trained(model), settings.shared, "model.shared", inside=shared))

    def has_leaves(part: ClientParams) -> bool:
        return bool(jax.tree.leaves(trained(part)))

    def started(hparams: DFedAltNumbers, part: ClientParams) -> Any:
        return init_optimizer(settings.optimizer(hparams), part) if has_leaves(part) else ()

    def init(hparams: DFedAltNumbers, client_params: ClientParams) -> DFedAltState:
        personal, shared = (started(hparams, chosen(client_params, shared)) for shared in (False, True))
        return DFedAltState(client_params, personal, shared)

    def steps(
        shared: bool, of_phase: Settings, hparams: Any, models: ClientParams, opt_state: Any, context: RoundContext
    ) -> tuple[ClientParams, Any, jax.Array | None]:
        part = chosen(models, shared)
        if not has_leaves(part):
            return models, opt_state, None

        def whole(part: ClientParams) -> ClientParams:
            return with_trained(part, joined_leaves(trained(part), trained(models)))

        def gradient(part: ClientParams, key: jax.Array, **more: Any) -> tuple[jax.Array, ClientParams]:
            loss, found = context.gradient(whole(part), key, **more)
            return loss, chosen(found, shared)

        used = partial(seen, hparams) if shared else lambda gradient: gradient
        of_part = context._replace(gradient=gradient)
        part, opt_state, loss = local_steps(of_phase, hparams, part, opt_state, of_part, used)
        return whole(part), opt_state, loss

    def do_round(
        hparams: DFedAltNumbers, state: DFedAltState, links: Links, context: RoundContext
    ) -> tuple[DFedAltState, RoundStats]:
        first = settings._replace(num_local_steps=hparams.personal_steps, proximal=False)
        own = context._replace(key=jax.random.fold_in(context.key, PERSONAL))
        models, personal, loss = steps(False, first, hparams, state.params, state.personal, own)
        models, shared, later = steps(True, settings, hparams, models, state.shared, context)
        models, stats = exchange(settings, hparams, links, context, models, later if loss is None else loss)
        return DFedAltState(models, personal, shared), stats

    return Algorithm(READ, init, do_round, lambda state: state.params, traits=traits(settings))


@register(
    "dfedalt",
    DFedAltNumbers,
    ignores=("compressor",),
    formula="K_v times v <- v - eta grad_v f(u, v);  K_u times u <- u - eta grad_u f(u, v+);  u+ = W u",
    cite="shi2023partial; collins2021",
)
def dfedalt(settings: Settings = Settings()) -> Algorithm:
    """DFedAlt: local steps on the personal leaves v, then on the shared ones u (`model.shared`), which are exchanged.

    It is FedRep with gossip in place of a server; FedRep takes one step or epoch on the shared leaves. Steps on
    personal leaves have minibatches of their own. FedProx's term holds the shared leaves alone.
    """
    return alternating(settings)


@register(
    "dfedsalt",
    DFedSaltNumbers,
    ignores=("compressor",),
    formula="K_v times v <- v - eta grad_v f(u, v);  K_u times u <- u - eta grad_u f(u + rho g / |g|, v+), "
    "g = grad_u f(u, v+);  u+ = W u",
    cite="shi2023partial",
)
def dfedsalt(settings: Settings = Settings()) -> Algorithm:
    """DFedSalt: `dfedalt` with sharpness-aware minimisation of the shared leaves, as in `dfedsam`."""
    return alternating(settings, lambda hparams, gradient: sharpness_aware(gradient, hparams.rho))
