"""DMGT-SVRG: gradient tracking with minibatches whose noise vanishes, and several steps of gossip an exchange."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import AlgorithmNumbers, Settings, decayed_gradient, recursion_step
from mdfl_jax.algorithms.registry import RECURSION, register
from mdfl_jax.core import contract
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.links import Senders, as_matrix
from mdfl_jax.core.message_bits import count_bits, dense_bits, double_dense_bits, messages_sent
from mdfl_jax.core.numbers import Setting, number
from mdfl_jax.core.rng import own_draws
from mdfl_jax.core.sharding import choose, everywhere, take_steps
from mdfl_jax.core.trees import where_rows
from mdfl_jax.core.types import SYMMETRIC, Algorithm, ClientParams, Links, Report, RoundContext, RoundStats, Traits

OF_THE_LINKS = 1.0  # the value of mixing_rate with which it is computed in each round
LARGEST_MATRIX = 256  # clients; the eigenvalues of a matrix of this size take some milliseconds on a CPU
CLOSE_TO_ONE = 1e-5  # an eigenvalue in single precision that is nearer to one is one


class DMGTSVRGState(NamedTuple):
    """The state that one round hands to the next.

    Attributes:
      params: [N, ...] the models x.
      anchor: [N, ...] w, the models at which the clients know their whole gradients.
      anchor_gradient: [N, ...] the gradients at w over all samples of each client.
      begun: [N] bool, whether the client has taken part in a round, so that it knows them.
      estimate: [N, ...] v, the estimates of the clients' own gradients in the round before.
      tracked: [N, ...] s, each client's estimate of the mean gradient.
      round: [] int32, from 0.
    """

    params: ClientParams
    anchor: ClientParams
    anchor_gradient: ClientParams
    begun: jax.Array
    estimate: ClientParams
    tracked: ClientParams
    round: jax.Array


class DMGTSVRGNumbers(AlgorithmNumbers):
    """The numbers of DMGT-SVRG."""

    gossip_steps: int = number(2, "steps of gossip in each of the two exchanges of a round, K", static=True, at_least=1)
    anchor_probability: float = number(
        0.1, "probability with which a client takes a new whole gradient in a round, p", at_least=0, at_most=1
    )
    mixing_rate: float = number(
        OF_THE_LINKS,
        "lambda_2 of the mixing matrix, for Chebyshev's gossip; 0: plain gossip; 1: computed from each round's links",
        at_least=0,
        at_most=1,
    )

    def check(self, setting: Setting) -> None:
        """Check that the eigenvalue is given where there are too many clients to compute it."""
        super().check(setting)
        if self.mixing_rate == OF_THE_LINKS and setting.num_clients > LARGEST_MATRIX:
            raise UserError(
                f"algorithm.mixing_rate is 1, so it is computed from the links of each round, which takes at most "
                f"{LARGEST_MATRIX} clients; with network.num_clients={setting.num_clients} it must be below 1"
            )


@register(
    "dmgt_svrg",
    DMGTSVRGNumbers,
    ignores=(*RECURSION, "compressor"),
    keeps_sum=True,
    formula="v+ = g(x) - g(w) + grad f(w);  s+ = M(s + v+ - v);  x+ = M(x - eta s+);  with probability p: w <- x\n"
    "M is K steps z^(k+1) = (1 + b) W z^k - b z^(k-1);  b = (1 - sqrt(1 - lambda_2^2)) / (1 + sqrt(1 - lambda_2^2))",
    cite="liu2024; ye2020",
)
def dmgt_svrg(settings: Settings = Settings()) -> Algorithm:
    """DMGT-SVRG: tracked gradients whose minibatch noise vanishes, and several steps of gossip in each exchange.

    DMGT-SVRG is the PMGT-SVRG of Ye, Xiong and Zhang. g are gradients on one minibatch. M begins with z^(-1) = z^0, and
    with b = 0 it is W^K. At the start w = x and s = v = grad f(x). With probability p a client takes w <- x, with its
    gradient over all samples.

    A round takes the three steps v, s, x, and then draws who renews w. So the whole gradient is taken at the x at which
    v+ was taken. Round 0 sends K messages a link, for x. Every later round sends 2 K, for s and x. In a round without
    links the recursions run with W = I and nothing is sent. If the graph is not connected, lambda_2 is that of the part
    that mixes most slowly.
    """

    def init(hparams: DMGTSVRGNumbers, client_params: ClientParams) -> DMGTSVRGState:
        nothing = jax.tree.map(jnp.zeros_like, client_params)
        begun = jnp.zeros(jax.tree.leaves(client_params)[0].shape[0], bool)
        return DMGTSVRGState(client_params, client_params, nothing, begun, nothing, nothing, jnp.int32(0))

    def do_round(
        hparams: DMGTSVRGNumbers, state: DMGTSVRGState, links: Links, context: RoundContext
    ) -> tuple[DMGTSVRGState, RoundStats]:
        gradient = context.gradient
        contract.takes(gradient, "whole", "by which dmgt_svrg asks for the gradient over all samples of a client")
        x, is_first, steps = state.params, state.round == 0, hparams.gossip_steps
        step = recursion_step(settings, hparams, state.round)
        weight = chebyshev_weight(mixing_rate(hparams, links))

        def gossip(z: ClientParams, exchange: int) -> ClientParams:
            def once(pair: tuple[ClientParams, ClientParams], k: jax.Array) -> tuple[tuple, None]:
                now, before = pair
                heard, _ = settings.aggregate(hparams, links, now, context, which=exchange * steps + k)
                b = lambda leaf: weight.astype(leaf.dtype)  # noqa: E731
                return (jax.tree.map(lambda h, z: (1 + b(h)) * h - b(z) * z, heard, before), now), None

            return take_steps(once, (z, z), steps)[0][0]

        # The draw of anchors has the algorithm's own key, so that its minibatches are those of all other algorithms.
        drawn = jax.random.uniform(own_draws(context.key), state.begun.shape, jnp.float32) < hparams.anchor_probability
        renewed = drawn | ~state.begun
        whole = choose(
            jnp.any(renewed),
            lambda models, known: gradient(models, jax.random.fold_in(context.key, 1), whole=True)[1],
            lambda models, known: known,
            x,
            state.anchor_gradient,
        )

        def reduced(models: ClientParams, key: jax.Array) -> tuple[jax.Array, ClientParams]:
            loss, here = gradient(models, key)
            there = gradient(state.anchor, key)[1]  # on the same minibatch
            corrected = jax.tree.map(lambda g, h, known: g - h + known, here, there, state.anchor_gradient)
            return loss, where_rows(state.begun, corrected, whole)

        loss, estimate = decayed_gradient(reduced, hparams, step)(x, jax.random.fold_in(context.key, 0))
        planned = jax.tree.map(lambda s, new, old: s + new - old, state.tracked, estimate, state.estimate)
        tracked = jax.tree.map(lambda own, mixed: jnp.where(is_first, own, mixed), planned, gossip(planned, 0))
        descended = jax.tree.map(lambda x, s: x - step.astype(x.dtype) * s, x, tracked)
        following = DMGTSVRGState(
            params=gossip(descended, 1),
            anchor=where_rows(renewed, x, state.anchor),
            anchor_gradient=where_rows(renewed, whole, state.anchor_gradient),
            begun=jnp.ones_like(state.begun),
            estimate=estimate,
            tracked=tracked,
            round=state.round + 1,
        )
        messages = messages_sent(links.adjacency, links.senders) * jnp.where(is_first, steps, 2 * steps)
        return following, RoundStats(loss, messages, count_bits(messages, dense_bits(x)), report=Report(whole=renewed))

    needs = frozenset({"adjacency", "mix", SYMMETRIC})
    return Algorithm(needs, init, do_round, lambda state: state.params, traits=Traits(double_dense_bits))


def mixing_rate(hparams: DMGTSVRGNumbers, links: Links) -> jax.Array:
    """Return lambda_2 of W, the given one or that of the links: the largest size of an eigenvalue below one, [].

    Each connected part of a graph has an eigenvalue of one, whose eigenvector no gossip changes. So these eigenvalues
    do not count, and the result is lambda_2 of the part that mixes most slowly.
    """
    given = jnp.asarray(hparams.mixing_rate, links.mix.dtype)
    if links.num_clients > LARGEST_MATRIX:
        return given

    def computed(mix: jax.Array, senders: Senders) -> jax.Array:
        sizes = jnp.abs(jnp.linalg.eigvalsh(as_matrix(mix, senders)))
        return jnp.max(jnp.where(sizes < 1 - CLOSE_TO_ONE, sizes, 0))

    return choose(
        given < OF_THE_LINKS, lambda mix: given, lambda mix: everywhere(computed, mix, links.senders), links.mix
    )


def chebyshev_weight(rate: jax.Array) -> jax.Array:
    """Return b, the weight of the previous step in Chebyshev's gossip, for lambda_2 in [0, 1): 0 for 0.

    >>> round(float(chebyshev_weight(jnp.float32(0.8))), 4)  # (1 - 0.6) / (1 + 0.6)
    0.25
    """
    root = jnp.sqrt(1 - jnp.square(rate))
    return (1 - root) / (1 + root)
