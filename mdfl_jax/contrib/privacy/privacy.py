"""The section `privacy`: DP-SGD, and a network that counts which of its gradients each client has let others know of.

A client spends nothing by computing. It spends what it has computed when it sends: so epsilon follows the steps up to
the last round in which a client has sent, and who meets nobody spends nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.contrib.privacy.account import ACCOUNTANTS, INSTALL, PACKAGE, Account, is_installed, largest_draw
from mdfl_jax.contrib.privacy.covered import ONE_STEP_LATE, PUBLIC, steps_of, uncovered
from mdfl_jax.contrib.privacy.sgd import PrivateNumbers, learns, private
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.metric import CLIENTS, CURVE, HOLDS, TABLE, Metric
from mdfl_jax.core.section import Built, Rule, Section, field, section
from mdfl_jax.core.trees import has_statistics
from mdfl_jax.core.types import Clients, Links, Network, Observed, Task
from mdfl_jax.networks.wrappers.wrapper import wrap


class CountingParams(NamedTuple):
    """The traced numbers of a network that counts releases: those of the inner network, and `PrivateNumbers.least`."""

    inner: Any
    least: Any


class CountingState(NamedTuple):
    """The state of a network that counts releases.

    Attributes:
      inner: the state of the inner network.
      learns: [N] bool, the clients that learn from samples of their own.
      steps: [N] int32, the noised gradients that each client has computed.
      released: [N] int32, those of them of which the messages that it has sent may tell.
    """

    inner: Any
    learns: jax.Array
    steps: jax.Array
    released: jax.Array


def counting(network: Network, steps: int, late: bool, metrics: tuple[Metric, ...]) -> Network:
    """Make a network that counts the gradients of which clients let others know.

    Args:
      network: the network.
      steps: the gradients that a client computes in a round.
      late: whether the messages of a round carry nothing of its gradients.
      metrics: the metrics of the account.
    """

    def init(params: CountingParams, key: jax.Array, clients: Clients) -> CountingState:
        none = jnp.zeros(network.num_clients, jnp.int32)
        inner = network.init(params.inner, key, clients)
        return CountingState(inner, learns(clients.num_samples, params.least), none, none)

    def step(
        params: CountingParams, key: jax.Array, round_index: jax.Array, state: CountingState, clients: Clients
    ) -> tuple[CountingState, Links]:
        inner, links = network.step(params.inner, key, round_index, state.inner, clients)
        return state._replace(inner=inner), links

    passed = wrap(network, init=init, step=step, metrics=metrics)

    def observe(params: CountingParams, state: CountingState, seen: Observed) -> CountingState:
        state = passed.hooks.observe(params, state, seen) if passed.hooks.observe else state
        computed = seen.stats.report.computed
        assert computed is not None  # the engine says who has computed
        after = state.steps + steps * (computed & state.learns)
        told = state.steps if late else after
        return state._replace(steps=after, released=jnp.where(seen.stats.messages > 0, told, state.released))

    return passed._replace(hooks=passed.hooks._replace(observe=observe))


def metrics_of(account: Account) -> tuple[Metric, ...]:
    """Return the metrics of an account: the epsilon of each client, its released steps, and the noise."""

    def rows(at: Any) -> jax.Array:
        state, clients = at.network_state, at.clients
        numbers = [jnp.broadcast_to(x, state.steps.shape) for x in (clients.numbers.noise, clients.numbers.delta)]
        return jnp.stack([x.astype(jnp.float32) for x in (state.released, clients.num_samples, *numbers)], axis=1)

    return (
        Metric(
            "epsilon",
            rows,
            HOLDS,
            shape=(CLIENTS, 4),
            on_host=account.of_rows,
            over_clients=lambda values: float(np.max(values)),
            more={"mean": lambda values: float(np.mean(values))},
            label="epsilon, largest of a client",
            shown={TABLE, CURVE},
        ),
        Metric("released_steps", lambda at: at.network_state.released, HOLDS, label="steps that others may know"),
        Metric("privacy_noise", lambda at: at.clients.numbers.noise, HOLDS, shape=(), label="noise (clips)"),
    )


@section("privacy", order=90, switch="clip")
@dataclass(frozen=True)
class PrivacyConfig(Section):
    """Differential privacy of single samples: clipped and noised gradients, and what each client spends."""

    clip: float = field(float("inf"), "largest norm of the gradient of a sample; inf: no privacy", above=0, traced=True)
    noise: float = field(
        0.0,
        "standard deviation of the noise on a sum of clipped gradients, in units of privacy.clip",
        at_least=0,
        finite=True,
        traced=True,
    )
    target_epsilon: float = field(
        0.0,
        "the least noise is taken with which no client spends more than this in all rounds; 0: privacy.noise says it",
        at_least=0,
        finite=True,
        traced=True,
    )
    delta: float = field(
        1e-5, "delta of the account; it should be below 1 / samples of a client", above=0, below=1, traced=True
    )
    accountant: str = field(
        "rdp",
        "how steps are composed: by Renyi divergences (rdp), or by the distribution of the privacy loss (pld), which "
        "is tighter and takes seconds for each number of samples and of steps",
        names=ACCOUNTANTS,
    )
    by_leaf: bool = field(False, "each of the L leaves of a gradient is clipped by itself, to privacy.clip / sqrt(L)")
    least_samples: int = field(
        1,
        "clients with fewer samples do not learn from them; with minibatches the target is that of so many samples",
        at_least=1,
        traced=True,
    )
    largest_batch: int = field(
        0, "samples to which minibatches are padded, and at which draws are cut off; 0: by algorithm.batch_size",
        at_least=0,
    )  # fmt: skip
    public: str = field(
        "",
        "what all may know of the samples besides their number, with commas: labels (how many of each a client holds) "
        "and moments (by which data.normalize=auto normalises)",
    )

    def in_use(self, whole: Any) -> bool:
        """Tell whether gradients are clipped."""
        return bool(np.isfinite(self.clip))

    def account(self, whole: Any) -> Account:
        """Return what decides the account of the clients."""
        batch_size = whole.algorithm.batch_size
        largest = self.largest_batch or (largest_draw(batch_size) if batch_size else 0)
        return Account(self.accountant, batch_size, largest)

    def solved(self, whole: Any) -> float | None:
        """Return the noise: the given one, or the least one that reaches the target; None if none does."""
        if not self.target_epsilon:
            return self.noise
        steps = whole.rounds * steps_of(whole)
        delta = float(np.float32(self.delta))
        return self.account(whole).noise(self.target_epsilon, steps, self.least_samples, delta)

    def rules(self, whole: Any) -> Iterator[Rule]:
        """Yield the rules: there is noise on what has a bound, and the account covers what clients release."""
        unbounded = "0 with privacy.clip inf: gradients without a bound need infinite noise"
        yield "privacy.noise", self.noise > 0 and not self.in_use(whole), unbounded
        yield "privacy.target_epsilon", self.target_epsilon > 0 and not self.in_use(whole), unbounded
        if not self.in_use(whole):
            return
        yield (
            "privacy.noise",
            self.noise > 0 and self.target_epsilon > 0,
            "0 with privacy.target_epsilon, which sets it",
        )
        yield "privacy.clip", not is_installed(), f"inf without the package {PACKAGE}: pip install '{INSTALL}'"
        for name in self._public:
            if name not in PUBLIC:
                raise UserError(f"privacy.public: {unknown_name('part of the samples', name, PUBLIC)}")
        yield from uncovered(whole, self._public)
        batch = whole.algorithm.batch_size
        full = "0 with algorithm.batch_size 0: all samples are in all steps"
        yield "privacy.largest_batch", self.largest_batch and not batch, full
        few = f"0 or at least algorithm.batch_size, which is {batch}"
        yield "privacy.largest_batch", 0 < self.largest_batch < batch, few
        if self.target_epsilon:
            cut = "0 with privacy.target_epsilon: the noise is found as if all drawn samples fit"
            yield "privacy.largest_batch", self.largest_batch > 0, cut
            none = f"larger: no noise reaches it in {whole.rounds} rounds at privacy.delta {self.delta:g}"
            yield "privacy.target_epsilon", self.solved(whole) is None, none

    @property
    def _public(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.public.split(",") if name.strip())

    def check_task(self, whole: Any, task: Task) -> None:
        """Refuse a model whose gradients are not those of single samples."""
        if has_statistics(jax.eval_shape(task.init, task.data, jax.random.key(0))):
            raise UserError(
                f"privacy.clip is {self.clip:g}; it must be inf with a model of batch normalisation: the mean over a "
                "batch is in the gradient of each sample, and the moments are sent without noise"
            )

    def wrap_task(self, task: Task, whole: Any, num_strata: int) -> Task:
        """Return the task with the gradients of DP-SGD."""
        account = self.account(whole)
        return private(task, account.batch_size, account.largest, self.by_leaf)

    def task_params(self, inner: Any, whole: Any) -> PrivateNumbers:
        """Return the traced numbers of `wrap_task`, around those of the task itself."""
        if not self.in_use(whole):
            return inner
        clip, noise, delta = (np.float32(x) for x in (self.clip, self.solved(whole), self.delta))
        return PrivateNumbers(inner, clip, noise, delta, np.int32(self.least_samples))

    def spent(self, whole: Any, takes_part: np.ndarray, sends: np.ndarray, num_samples: np.ndarray) -> np.ndarray:
        """Return the epsilon of each client after some rounds of which only the network is known (not with `PICKS`).

        Args:
          whole: the configuration.
          takes_part: [S, R, N] bool, who computes in each round.
          sends: [S, R, N] bool, whose messages somebody receives.
          num_samples: [S, N] the samples of each client.

        Returns:
          [S, N] epsilon.
        """
        steps = steps_of(whole) * (takes_part & (num_samples >= max(self.least_samples, 1))[:, None])
        told = np.cumsum(steps, axis=1)
        released = np.where(sends, told, 0).max(axis=1)
        rest = [np.broadcast_to(np.float32(x), released.shape) for x in (self.solved(whole), self.delta)]
        return self.account(whole).of_rows(np.stack([released, num_samples, *rest], axis=-1))

    def wrap(self, network: Network, whole: Any, built: Built) -> Network:
        """Return the network that counts what clients release.

        Raises:
          UserError: if clients move by their models, so that others see what has not been sent.
        """
        if network.hooks.compares:
            raise UserError(
                f"network.mobility is {whole.network.mobility}; it must be a rule that reads no models with "
                "privacy.clip: places would tell of models that have not been sent"
            )
        late = whole.algorithm.name in ONE_STEP_LATE
        return counting(network, steps_of(whole), late, metrics_of(self.account(whole)))

    def params(self, inner: Any, whole: Any, cost: Any) -> CountingParams:
        """Return the numbers of `wrap`."""
        return CountingParams(inner, np.int32(self.least_samples))
