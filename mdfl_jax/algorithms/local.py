"""Local work, the same in every algorithm: E optimiser steps of each client on its own data, or E epochs of it."""

import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mdfl_jax.attacks.lying import lie_to_each
from mdfl_jax.core import trees
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import Numbers, Setting, nested, number
from mdfl_jax.core.rng import stream
from mdfl_jax.core.sharding import everywhere, take_steps
from mdfl_jax.core.trees import (
    STATISTICS,
    chosen_leaves,
    each,
    has_statistics,
    joined_leaves,
    trained,
    where_rows,
    with_trained,
)
from mdfl_jax.core.types import (
    Algorithm,
    ClientParams,
    Exchanged,
    Extra,
    Gradient,
    Links,
    Params,
    RoundContext,
    RoundStats,
)
from mdfl_jax.data.batching import Epochs
from mdfl_jax.exchange.active import computed_by
from mdfl_jax.exchange.aggregation import AGGREGATIONS, Heard, aggregate
from mdfl_jax.exchange.sending import Sending, sent

Number = Any  # a traced scalar or a Python number
_of_links = functools.partial(number, part="links", source="PaME V-D")


class AlgorithmNumbers(Numbers):
    """The numbers that every algorithm has.

    `mdfl_jax.networks.wrappers.participation` applies participation and the periods, except in PaME, which applies
    them itself. ``aggregation`` holds the numbers of the rule by which models are combined.
    """

    lr: float = number(0.1, "learning rate at the first step", above=0)
    weight_decay: float = number(
        0.0,
        "added to the gradient as weight_decay * parameter (an L2 penalty), also of a client without samples",
        at_least=0,
    )
    participation: float = _of_links(
        1.0, "share of the neighbours that a communication takes, nu", at_least=0, at_most=1
    )
    period_min: int = _of_links(
        1,
        "smallest period of communication in rounds, kappa; pame draws one per client, else all clients have one",
        at_least=1,
        at_most=10**9,
    )
    period_max: int = _of_links(
        1, "largest period; one for all clients is the middle of the two", at_least=1, at_most=10**9
    )
    proximal: float = number(
        0.0,
        "FedProx's mu: each local step adds mu (y - x) to the gradient at y, where x is the model before the first one",
        at_least=0,
        source="FedProx (Li et al. 2020)",
    )
    aggregation: Any = nested(Numbers())

    def check(self, setting: Setting) -> None:
        """Check that the smallest period is at most the largest one."""
        if self.period_min > self.period_max:
            own = f" ({setting.member}'s own)" if self.period_max == type(self)().period_max else ""
            raise UserError(
                f"algorithm.period_min is {self.period_min}; it must be at most algorithm.period_max, which is "
                f"{self.period_max}{own}"
            )


class LocalNumbers(AlgorithmNumbers):
    """The numbers of algorithms whose clients take local steps with an optimiser."""

    momentum: float = number(
        0.0, "momentum coefficient of the optimiser SGD", at_least=0, below=1, part="algorithm.optimizer=sgd"
    )


class CompressedNumbers(AlgorithmNumbers):
    """The numbers of algorithms that compress messages. They include those of the compressor in use."""

    own_compressor: ClassVar[str] = ""
    """The compressor of the algorithm's paper, used where a configuration names none."""
    compressor: Any = nested(Numbers())


OptimizerFactory = Callable[[Any], optax.GradientTransformation]
LearningRateSchedule = Callable[[jax.Array], jax.Array]


def sgd(
    schedule: LearningRateSchedule | None = None, momentum: bool = True, nesterov: bool = False
) -> OptimizerFactory:
    """Make a factory of SGD with momentum and weight decay, as the papers use it.

    Args:
      schedule: (step) -> factor of the learning rate, 1 at the first step; None keeps the rate constant.
      momentum: whether momentum is used; False also saves the memory of the velocities.
      nesterov: whether the momentum is Nesterov's, x <- x - eta (beta m + g), and not that of a heavy ball.

    Returns:
      (the algorithm's numbers) -> the optax transformation of one client.
    """
    factor = schedule or (lambda step: jnp.float32(1.0))

    def make(params: Any) -> optax.GradientTransformation:
        return optax.chain(
            optax.add_decayed_weights(params.weight_decay),
            optax.trace(params.momentum, nesterov) if momentum else optax.identity(),
            optax.scale_by_learning_rate(lambda step: params.lr * factor(step)),
        )

    return make


def adam(schedule: LearningRateSchedule | None = None) -> OptimizerFactory:
    """Make a factory of Adam with decoupled weight decay and optax's defaults; ``schedule`` is as in `sgd`."""
    factor = schedule or (lambda step: jnp.float32(1.0))

    def make(params: Any) -> optax.GradientTransformation:
        return optax.adamw(lambda step: params.lr * factor(step), weight_decay=params.weight_decay)

    return make


class Settings(NamedTuple):
    """The settings that shape an algorithm's compiled program. Each algorithm reads the ones that it needs.

    Attributes:
      optimizer: (the algorithm's numbers) -> optax transformation of one client; its state is never exchanged.
      num_local_steps: E, the optimiser steps before each exchange.
      num_local_epochs: the epochs of local work, each of as many steps as it takes; 0: local work is E steps.
      equal_steps: whether clients take equally many steps in an epoch, however many samples they hold.
      proximal: whether local steps are held near the model before the first one (`AlgorithmNumbers.proximal`).
      mixing_bound: senders in a neighbour list of `mdfl_jax.exchange.gossip.mix`; 0 lets that function choose.
      compressor: a name of `mdfl_jax.exchange.compressors.COMPRESSORS`; "" uses the algorithm's own.
      schedule: (step) -> factor of the learning rate, for algorithms that have no optimiser.
      local_statistics: whether batch statistics are kept local and not exchanged (`mdfl_jax.core.trees`).
      aggregation: a name of `mdfl_jax.exchange.aggregation.AGGREGATIONS`, for algorithms that mix whole models.
      shared: patterns of the paths of the leaves that are exchanged (`mdfl_jax.core.trees.chosen_leaves`), for
        algorithms that can keep a part of the model local; "": all. The other leaves are personal.
      sends: maps of what clients send (`mdfl_jax.exchange.sending`), applied one after another.
    """

    optimizer: OptimizerFactory = sgd()
    num_local_steps: int = 1
    num_local_epochs: int = 0
    equal_steps: bool = False
    proximal: bool = False
    mixing_bound: int = 0
    compressor: str = ""
    schedule: LearningRateSchedule | None = None
    local_statistics: bool = False
    aggregation: str = "mean"
    shared: str = ""
    sends: tuple[Sending, ...] = ()

    def part(self, model: ClientParams) -> ClientParams:
        """Return the part of models [N, ...] that is exchanged: not the batch statistics and leaves that stay local."""
        part = trees.exchanged(model, self.local_statistics)
        if not self.shared:
            return part
        return with_trained(part, chosen_leaves(trained(part), self.shared, "model.shared"))

    def with_part(self, model: ClientParams, part: ClientParams) -> ClientParams:
        """Return models [N, ...] with the result of exchanging what `part` returned."""
        if self.shared:
            part = with_trained(part, joined_leaves(trained(part), trained(model)))
        return trees.received(model, part, self.local_statistics)

    def sent(
        self, hparams: AlgorithmNumbers, key: jax.Array, links: Links, vectors: ClientParams, which: Number = 0
    ) -> ClientParams:
        """Return what the clients send in place of their vectors [N, ...]; `mdfl_jax.exchange.sending.sent`."""
        of_wrappers = [extra.sends for extra in reversed(links.extra) if type(extra).sends is not Extra.sends]
        return sent((*self.sends, *of_wrappers), hparams, key, links, vectors, which)

    def judging(self, context: RoundContext, model: ClientParams | None = None) -> RoundContext:
        """Return the context of the exchange that follows local work, for rules that judge received models.

        The rules judge on the minibatch of the first local step, also if that is a minibatch of an epoch.

        Args:
          context: the context of the round.
          model: [N, ...] the models of which the clients exchange the `part`. A rule completes a received part by the
            receiver's other leaves before it judges. None: whole models are exchanged.
        """
        if self.num_local_epochs and context.passes is not None:
            context = context._replace(judged_on=lambda: self.epochs(context).batch(jnp.int32(0)))
        loss = context.loss
        if loss is None or model is None or not (self.shared or self.local_statistics):
            return context
        return context._replace(loss=lambda part, **batch: loss(self.with_part(model, part), **batch))

    def epochs(self, context: RoundContext) -> Epochs:
        """Return the minibatches of the local epochs of a round.

        Raises:
          UserError: if the task has no epochs (when the round is traced).
        """
        if context.passes is None:
            raise UserError(
                f"algorithm.local_epochs is {self.num_local_epochs}; it must be 0: the task has no minibatches of "
                "epochs (TaskHooks.passes)"
            )
        return context.passes(stream(context.key, "epochs"), self.num_local_epochs, self.equal_steps)

    def aggregate(
        self, hparams: AlgorithmNumbers, links: Links, own: ClientParams, context: RoundContext, which: Number = 0
    ) -> Exchanged:
        """Send the models of all clients over the links, and combine what each client receives with its own model.

        Args:
          hparams: the algorithm's numbers.
          links: the links, with the weights ``mix`` of the mean.
          own: [N, ...] the models, or other vectors of their shape.
          context: the context of the round, or that of `judging` after local work.
          which: the index of the exchange, for algorithms with several in a round.

        Returns:
          What each client has after the exchange, [N, ...], by the rule ``aggregation``, and what the rule reports. The
          algorithm returns the report in its `RoundStats`.
        """
        told = self.sent(hparams, context.key, links, own, which)
        heard = Heard(links, own, told, hparams.aggregation, self.mixing_bound, context)
        return aggregate(self.aggregation, lie_to_each(heard, AGGREGATIONS.traits(self.aggregation).weighs))


def recursion_step(settings: Settings, hparams: AlgorithmNumbers, k: jax.Array) -> jax.Array:
    """Return the step size lr * schedule(k) at step k, a scalar array, for algorithms that have no optimiser."""
    factor = settings.schedule(k) if settings.schedule else 1.0
    return jnp.asarray(hparams.lr * factor)


def waiting(algorithm: Algorithm) -> Algorithm:
    """Make a recursion wait in rounds in which there are several clients but no link.

    The whole state then stays as it is, and no client computes or sends. Without this, NIDS would run with W = I: it
    would keep the correction of the latest exchange and repeat it in every step. Where the losses are nearly flat, as
    in logistic regression, models would then diverge between two communications (docs/pame.md).

    Args:
      algorithm: one whose rounds send nothing where there is no link.
    """

    @functools.wraps(algorithm.round)
    def do_round(hparams: Any, state: Any, links: Links, context: RoundContext) -> tuple[Any, RoundStats]:
        following, stats = algorithm.round(hparams, state, links, context)
        waits = ~jnp.any(links.adjacency) & (links.num_clients > 1)
        kept = jax.tree.map(lambda old, new: jnp.where(waits, old, new), state, following)
        return kept, computed_by(jnp.broadcast_to(~waits, stats.loss.shape), stats)

    return algorithm._replace(round=do_round)


def decayed_gradient(gradient: Gradient, hparams: AlgorithmNumbers, step: jax.Array) -> Gradient:
    """Add weight_decay * parameter to the gradient, for algorithms that have no optimiser.

    The gradient of batch statistics is divided by ``step`` instead, so that their own step size is one.

    Args:
      gradient: (client_params [N, ...], key) -> (loss [N], gradients [N, ...]).
      hparams: the algorithm's numbers, for ``weight_decay``.
      step: [] the step size of the recursion.

    Returns:
      A function of the same arguments and results as ``gradient``; the loss does not include the weight decay.
    """

    def decayed(client_params: ClientParams, key: jax.Array) -> tuple[jax.Array, ClientParams]:
        loss, found = gradient(client_params, key)
        add = lambda g, p: g + jnp.asarray(hparams.weight_decay, p.dtype) * p  # noqa: E731
        divided = lambda g, s: jnp.where(step > 0, g / step.astype(g.dtype), 0)  # noqa: E731 -- no step moves nothing
        return loss, each(add, divided, found, client_params)

    return decayed


def with_per_sample(algorithm: Algorithm, change: Callable[[Any, Params], Params]) -> Algorithm:
    """Make an algorithm whose clients change the gradient of each sample, as a clip, before they average them.

    Args:
      algorithm: any algorithm.
      change: (the algorithm's numbers, gradient of one sample) -> gradient.
    """

    @functools.wraps(algorithm.round)
    def do_round(hparams: Any, state: Any, links: Links, context: RoundContext) -> tuple[Any, RoundStats]:
        changed = functools.partial(context.gradient, per_sample=functools.partial(change, hparams))
        return algorithm.round(hparams, state, links, context._replace(gradient=changed))

    return algorithm._replace(round=do_round)


def init_optimizer(optimizer: optax.GradientTransformation, client_params: ClientParams) -> Any:
    """Return one optimiser state a client, [N, ...], for the models ``client_params`` [N, ...].

    The optimiser is mapped over the clients, so that a rule that reads the whole gradient sees that of one client only.
    """
    return jax.vmap(optimizer.init)(trained(client_params))


def optimizer_updates(
    optimizer: optax.GradientTransformation, gradients: ClientParams, opt_state: Any, client_params: ClientParams
) -> tuple[ClientParams, Any]:
    """Compute the updates of the clients' models by their optimisers. Batch statistics take a step of size one.

    Args:
      optimizer: the transformation of one client.
      gradients: [N, ...].
      opt_state: [N, ...] the optimiser states.
      client_params: [N, ...] the models.

    Returns:
      (updates [N, ...] to be added to the models, next optimiser states [N, ...]).
    """
    updates, opt_state = jax.vmap(optimizer.update)(trained(gradients), opt_state, trained(client_params))
    if has_statistics(gradients):
        updates = {"params": updates, STATISTICS: jax.tree.map(jnp.negative, gradients[STATISTICS])}
    return updates, opt_state


# (carry with leaves [N, ...], index of the step [], its gradient function) -> (carry, loss [N])
LocalStep = Callable[[Any, jax.Array, Gradient], tuple[Any, jax.Array]]


class LocalWork(NamedTuple):
    """The local steps of a round, which every algorithm with local steps takes in the same way.

    Attributes:
      gradient: the gradient function of the steps, with FedProx's term where there is one.
      num_steps: the steps of the client that takes the most: an int, or [] int32 where the data decides.
      epochs: the minibatches of the steps, where local work is epochs; None: each step draws its own.
    """

    gradient: Gradient
    num_steps: Any
    epochs: Epochs | None = None

    def take(self, step: LocalStep, start: Any) -> tuple[Any, jax.Array]:
        """Take the steps. A client that has taken all of its steps keeps its rows while others go on.

        The program is the same for every number of steps, since the number is an argument of the loop.

        Args:
          step: one step of all clients. The key that it gives the gradient function draws its minibatch, unless the
            minibatch is that of an epoch, and the model's random draws.
          start: leaves [N, ...].

        Returns:
          (what the last step returned, loss [N] at the first step).
        """
        epochs = self.epochs
        if epochs is None:
            return take_steps(lambda carry, index: step(carry, index, self.gradient), start, self.num_steps)
        of_each = epochs.steps

        def of_batch(carry: Any, index: jax.Array) -> tuple[Any, jax.Array]:
            moved, loss = step(carry, index, functools.partial(self.gradient, batch=epochs.batch(index)))
            return where_rows(index < of_each, moved, carry), loss

        with jax.named_scope("epochs"):
            return take_steps(of_batch, start, self.num_steps)

    @property
    def steps_of_each(self) -> Any:
        """The steps that each client takes: an int for all of them, or [N] int32."""
        return self.num_steps if self.epochs is None else self.epochs.steps


def local_work(settings: Settings, hparams: AlgorithmNumbers, start: ClientParams, context: RoundContext) -> LocalWork:
    """Return the local work of a round, as the settings want it.

    Args:
      settings: the number of steps, or of epochs, and whether FedProx's term is added.
      hparams: the algorithm's numbers, for ``proximal``.
      start: [N, ...] the models before the first step.
      context: the round. In epochs its key draws the orders of the samples.

    Raises:
      UserError: if the task has no epochs (when the round is traced).
    """
    gradient = near(context.gradient, start, hparams.proximal) if settings.proximal else context.gradient
    if not settings.num_local_epochs:
        return LocalWork(gradient, settings.num_local_steps)
    epochs = settings.epochs(context)
    return LocalWork(gradient, everywhere(jnp.max, epochs.steps), epochs)


def near(gradient: Gradient, start: ClientParams, strength: Number) -> Gradient:
    """Add mu (y - x) to the gradient at y: that of FedProx's term mu / 2 ||y - x||^2. The loss does not include it.

    Args:
      gradient: (client_params [N, ...], key) -> (loss [N], gradients [N, ...]).
      start: [N, ...] the models x. Batch statistics are not held.
      strength: mu.
    """

    @functools.wraps(gradient)
    def held(client_params: ClientParams, key: jax.Array, **more: Any) -> tuple[jax.Array, ClientParams]:
        loss, found = gradient(client_params, key, **more)
        pull = lambda g, y, x: g + jnp.asarray(strength, g.dtype) * (y - x)  # noqa: E731
        return loss, each(pull, lambda g, y, x: g, found, client_params, start)

    return held


def local_steps(
    settings: Settings,
    hparams: AlgorithmNumbers,
    client_params: ClientParams,
    opt_state: Any,
    context: RoundContext,
    seen: Callable[[Gradient], Gradient] = lambda gradient: gradient,
) -> tuple[ClientParams, Any, jax.Array]:
    """Take local steps x_i <- x_i - eta g_i of every client with its optimiser (MADFL II-B, local update).

    Args:
      settings: the optimiser, and how much local work there is.
      hparams: the algorithm's numbers.
      client_params: [N, ...] the models.
      opt_state: [N, ...] the optimiser states.
      context: the round; each step folds its index into the key.
      seen: makes the gradient function that the optimiser follows.

    Returns:
      (client_params, opt_state, loss [N] at the first step).
    """
    optimizer = settings.optimizer(hparams)

    def step(carry: tuple[ClientParams, Any], index: jax.Array, gradient: Gradient) -> tuple[Any, jax.Array]:
        params, state = carry
        # The key of a step depends on its index alone, so all algorithms take the same minibatches in the same steps.
        loss, gradients = seen(gradient)(params, jax.random.fold_in(context.key, index))
        updates, state = optimizer_updates(optimizer, gradients, state, params)
        return (optax.apply_updates(params, updates), state), loss

    work = local_work(settings, hparams, client_params, context)
    (params, state), loss = work.take(step, (client_params, opt_state))
    return params, state, loss
