"""The section `privacy`: noise on gradients or messages, and the account of what each client has spent."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from mdfl_jax.contrib.privacy.account import ACCOUNTANTS, INSTALL, PACKAGE, Account, is_installed, largest_draw
from mdfl_jax.contrib.privacy.counting import Counting, CountingParams, counting, metrics_of
from mdfl_jax.contrib.privacy.covered import HOPS, ONE_STEP_LATE, PUBLIC, UPDATES, steps_of, uncovered
from mdfl_jax.contrib.privacy.sgd import PrivateNumbers, private
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.section import Built, Rule, Section, field, section, switch
from mdfl_jax.core.trees import has_statistics
from mdfl_jax.core.types import Network, Task

GRADIENTS, MESSAGES = "gradients", "messages"
"""What is clipped and gets noise."""


@section("privacy", order=90, switch="clip")
@dataclass(frozen=True)
class PrivacyConfig(Section):
    """Differential privacy: clipped and noised gradients or messages, and what each client spends."""

    clip: float = field(
        float("inf"),
        "largest norm of the gradient of a sample, or of a message; inf: no privacy",
        at_least=2.0**-30,  # the squares of smaller numbers vanish in single precision, and so may their norm
        traced=True,
    )
    on: str = field(
        GRADIENTS,
        "what is clipped and gets noise: the gradients of single samples, whose sums get it (gradients), or what a "
        "client sends in a round (messages), which protects all its samples together",
        names=(GRADIENTS, MESSAGES),
    )
    noise: float = field(
        0.0,
        "standard deviation of the noise on a sum of clipped gradients or on a message, in units of privacy.clip",
        at_least=0,
        finite=True,
        traced=True,
    )
    cancelling: float = field(
        0.0,
        "standard deviation of the noise that one of two neighbours adds to its sum of gradients and the other one "
        "subtracts, in units of privacy.clip",
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
    pairs: bool = field(False, "also count what each client can know of each other one: the metric epsilon_pairs")
    public: str = field(
        "",
        "what all may know of the samples besides their number, with commas: labels (how many of each a client holds) "
        "and moments (by which data.normalize=auto normalises)",
    )

    def in_use(self, whole: Any) -> bool:
        """Tell whether gradients are clipped."""
        return bool(np.isfinite(self.clip))

    @property
    def of_messages(self) -> bool:
        """Whether the noise is on messages, and not on gradients."""
        return self.on == MESSAGES

    def account(self, whole: Any) -> Account:
        """Return what decides the account of the clients."""
        if self.of_messages:
            return Account(self.accountant, sensitivity=2)
        batch_size = whole.algorithm.batch_size
        largest = self.largest_batch or (largest_draw(batch_size) if batch_size else 0)
        return Account(self.accountant, batch_size, largest)

    def solved(self, whole: Any) -> float | None:
        """Return the noise: the given one, or the least one that reaches the target; None if none does."""
        if not self.target_epsilon:
            return self.noise
        steps = whole.rounds * (1 if self.of_messages else steps_of(whole))
        delta = float(np.float32(self.delta))
        return self.account(whole).noise(self.target_epsilon, steps, self.least_samples, delta)

    def rules(self, whole: Any) -> Iterator[Rule]:
        """Yield the rules: there is noise on what has a bound, and the account covers what clients release."""
        unbounded = "0 with privacy.clip inf: gradients without a bound need infinite noise"
        yield "privacy.noise", self.noise > 0 and not self.in_use(whole), unbounded
        yield "privacy.cancelling", self.cancelling > 0 and not self.in_use(whole), unbounded
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
        yield from uncovered(whole, self._public, self.of_messages, self.pairs)
        several = "false with allreduce: within a round each client passes on what it hears"
        yield "privacy.pairs", self.pairs and whole.algorithm.name == "allreduce", several
        if self.cancelling:
            yield from self._of_cancelling(whole)
        batch = 0 if self.of_messages else whole.algorithm.batch_size
        off = "privacy.on messages" if self.of_messages else "algorithm.batch_size 0"
        full = f"0 with {off}: no minibatch is drawn by chance"
        yield "privacy.largest_batch", self.largest_batch and not batch, full
        few = f"0 or at least algorithm.batch_size, which is {batch}"
        yield "privacy.largest_batch", 0 < self.largest_batch < batch, few
        if self.target_epsilon:
            cut = "0 with privacy.target_epsilon: the noise is found as if all drawn samples fit"
            yield "privacy.largest_batch", self.largest_batch > 0, cut
            unknown = "0 with privacy.target_epsilon: who meets whom decides what it hides"
            yield "privacy.cancelling", self.cancelling > 0, unknown
            none = f"larger: no noise reaches it in {whole.rounds} rounds at privacy.delta {self.delta:g}"
            yield "privacy.target_epsilon", self.solved(whole) is None, none

    def _of_cancelling(self, whole: Any) -> Iterator[Rule]:
        """Yield the rules of noise that cancels."""
        path = "privacy.cancelling"
        kept = "0 with privacy.on messages: a client keeps its own model, which has no noise that could cancel"
        yield path, self.of_messages, kept
        yield path, not self.noise, "0 with privacy.noise 0: the sum over all clients would have no noise"
        drawn = "0 with algorithm.batch_size above 0: its account is of steps on all samples"
        yield path, whole.algorithm.batch_size > 0, drawn
        yield path, self.pairs, "0 with privacy.pairs: its account takes everybody to see all messages"
        yield path, whole.attack.name, "0 with attackers, who may share secrets: its account is against one client"

    @property
    def _public(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.public.split(",") if name.strip())

    def ignored(self, whole: Any) -> Iterator[Rule]:
        """Yield the fields that are of gradients only."""
        why = "privacy.on is messages, of which it says nothing"
        for name in ("by_leaf", "least_samples"):
            yield f"privacy.{name}", self.of_messages, why

    def notes(self, whole: Any, num_samples: int) -> Iterator[Rule]:
        """Yield a delta that allows to publish one of those whom it protects."""
        clients = whole.network.num_clients
        many, of = (clients, "clients") if self.of_messages else (num_samples // clients, "samples of a client")
        why = f"it should be far below 1 / {many}: who publishes one of {many} {of} keeps such a delta"
        yield "privacy.delta", self.in_use(whole) and self.delta * many >= 1, why

    def check_task(self, whole: Any, task: Task) -> None:
        """Refuse a model whose gradients are not those of single samples, or that noise would break."""
        if has_statistics(jax.eval_shape(task.init, task.data, jax.random.key(0))):
            why = "noise would make its variances negative"
            if not self.of_messages:
                why = "the mean over a batch is in the gradient of each sample, and the moments are sent without noise"
            raise UserError(f"privacy.clip is {self.clip:g}; it must be inf with a model of batch normalisation: {why}")

    def wrap_task(self, task: Task, whole: Any, num_strata: int) -> Task:
        """Return the task with the gradients of DP-SGD, or as it is if the noise is on messages."""
        if self.of_messages:
            return task
        account = self.account(whole)
        return private(task, account.batch_size, account.largest, self.by_leaf)

    def task_params(self, inner: Any, whole: Any) -> Any:
        """Return the traced numbers of `wrap_task`, around those of the task itself."""
        return PrivateNumbers(inner, *self._numbers(whole)) if self.in_use(whole) and not self.of_messages else inner

    def _numbers(self, whole: Any) -> tuple[Any, Any, Any, Any]:
        """Return the traced numbers: the clip, the noise, delta and the least samples."""
        clip, noise, delta = (np.float32(x) for x in (self.clip, self.solved(whole), self.delta))
        return clip, noise, delta, np.int32(self.least_samples)

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
        told = np.cumsum(sends if self.of_messages else steps, axis=1)
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
        name = whole.algorithm.name
        how = Counting(
            steps=0 if self.of_messages else steps_of(whole),
            late=name in ONE_STEP_LATE and not self.of_messages,
            of_models=name not in UPDATES,
            hops=HOPS.get(name, 1) if self.pairs else 0,
            cancels=cancels(whole),
        )
        if how.cancels and network.lists is not None:
            raise UserError(
                f"privacy.cancelling is {self.cancelling:g}; it must be 0 without engine.links=dense, of which its "
                "account is"
            )
        return counting(network, how, metrics_of(self.account(whole), how))

    def params(self, inner: Any, whole: Any, cost: Any) -> CountingParams:
        """Return the numbers of `wrap`."""
        return CountingParams(inner, *self._numbers(whole), np.float32(self.cancelling))


@switch
def cancels(whole: Any) -> bool:
    """Tell whether neighbours add and subtract noise that they share."""
    return PrivacyConfig.of(whole).cancelling > 0
