"""The quantities that `mdfl theory` computes from the rounds of a network: a registration for each."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.pame import PaMENumbers
from mdfl_jax.algorithms.registry import aggregation_in_use
from mdfl_jax.config.sections import Experiment, numbers_in
from mdfl_jax.contrib.privacy.covered import PICKS
from mdfl_jax.contrib.privacy.privacy import PrivacyConfig
from mdfl_jax.contrib.theory import mixing, pame, walks
from mdfl_jax.contrib.theory.mixing import num_components, strong_window
from mdfl_jax.core.registry import Registry, caller
from mdfl_jax.exchange.aggregation import AGGREGATIONS
from mdfl_jax.exchange.neighbourhood import RobustNumbers
from mdfl_jax.networks.costs import sends_parts


@dataclass(frozen=True)
class Rounds:
    """The links of a network in R rounds under S seeds.

    A link that carries a part of a model is whole in ``adjacency`` and counts with this part in ``mix``.

    Attributes:
      adjacency: [S, R, N, N] bool, [..., i, j] is true where i hears j.
      mix: [S, R, N, N] float64 mixing matrices; rows sum to one.
      label_counts: [S, N, C] the samples of each label that each client holds.
      is_mobile: [S, N] bool; False everywhere in a network that is not a space.
      position: [S, N, 2] the places before the first round.
      attacker: [S, N] bool, who attacks once the attack has begun.
      num_samples: [S, N] the training samples of each client; None if nobody needs them.
      active: [S, R, N] bool, who takes part in each round; None if nobody needs it.
    """

    adjacency: np.ndarray
    mix: np.ndarray
    label_counts: np.ndarray
    is_mobile: np.ndarray
    position: np.ndarray
    attacker: np.ndarray
    num_samples: np.ndarray | None = None
    active: np.ndarray | None = None

    @cached_property
    def num_clients(self) -> int:
        """The number of clients, N."""
        return self.adjacency.shape[-1]

    @cached_property
    def contractions(self) -> dict[int, np.ndarray]:
        """The contraction of each window of B = 1, 2, 4, ... rounds: {B: [S, R // B]} (`mixing.contraction`)."""
        return {size: mixing.contraction(psi) for size, psi in mixing.windows(self.mix)}

    @cached_property
    def worst_p(self) -> dict[int, np.ndarray]:
        """The mixing parameter p that holds in every window of B rounds: {B: [S]}."""
        return {size: mixing.mixing_parameter(factors.max(1)) for size, factors in self.contractions.items()}

    @cached_property
    def keeps_mean(self) -> np.ndarray:
        """[S] bool, whether all mixing matrices are doubly stochastic, so that mixing keeps the mean model."""
        return (np.abs(self.mix.sum(-2) - 1) < 1e-5).all((1, 2))

    @cached_property
    def spread(self) -> mixing.Contraction:
        """How fast models come together, and how far gradients keep them apart (`mixing.spread`)."""
        samples = self.label_counts.sum(-1, keepdims=True)
        return mixing.spread(self.mix, self.label_counts / np.maximum(samples, 1))

    @cached_property
    def following(self) -> np.ndarray:
        """[S, R, N, N] int32, the next round of each link (`unions.next_links`)."""
        return mixing.next_links(self.adjacency)

    @cached_property
    def closing(self) -> np.ndarray:
        """[S, R] int32, the round in which the union from each round on connects all (`unions.closing_rounds`)."""
        return mixing.closing_rounds(self.following)

    @cached_property
    def effective(self) -> np.ndarray:
        """[S, ceil(R / 2)] the effective B of each first round (`unions.effective_windows`)."""
        return mixing.effective_windows(self.closing)

    @cached_property
    def best_windows(self) -> tuple[np.ndarray, np.ndarray]:
        """The B with the smallest windowed factor [S], NaN without a finite one, and this factor [S]."""
        sizes = np.array(list(self.worst_p))
        factors = np.stack([mixing.windowed_factor(p, size) for size, p in self.worst_p.items()])
        best, least = factors.argmin(0), factors.min(0)
        return np.where(np.isfinite(least), sizes[best].astype(float), np.nan), least


_Values = np.ndarray | None


class _Quantity(NamedTuple):
    """A number that theory computes for each seed.

    Attributes:
      label: its label in the table, with the symbol of the paper.
      source: where the paper defines it.
      of: (rounds, the sweep point's configuration) -> [S], which may hold ``inf`` and NaN; None for points to which
        the quantity does not apply.
    """

    label: str
    source: str
    of: Callable[[Rounds, Experiment], _Values]


QUANTITIES: Registry[_Quantity] = Registry("quantity of theory")


def quantity(name: str, label: str, source: str = "") -> Callable[[Callable[[Rounds, Experiment], _Values]], _Quantity]:
    """Return a decorator that registers a function (rounds, configuration) -> [S] as a `_Quantity`."""

    def add(of: Callable[[Rounds, Experiment], _Values]) -> _Quantity:
        return QUANTITIES.register(name, doc=label, origin=caller())(_Quantity(label, source, of))

    return add


@quantity("degree", "neighbours of a client, mean")
def _degree(rounds: Rounds, experiment: Experiment) -> _Values:
    return rounds.adjacency.sum(-1).mean((1, 2))


@quantity("components", "components of a round's graph, mean")
def _components(rounds: Rounds, experiment: Experiment) -> _Values:
    return num_components(rounds.adjacency).mean(1)


@quantity("connected", "rounds with a connected graph, share", "MADFL property 1 with B = 1")
def _connected(rounds: Rounds, experiment: Experiment) -> _Values:
    return (rounds.closing == np.arange(rounds.closing.shape[1])).mean(1)


@quantity("lambda_2", "lambda_2 of W^T W of a round, mean", "MADFL III")
def _lambda_2(rounds: Rounds, experiment: Experiment) -> _Values:
    return rounds.contractions[1].mean(1)


@quantity("p", "p that holds in every round", "MADFL assumption 3")
def _p(rounds: Rounds, experiment: Experiment) -> _Values:
    return rounds.worst_p[1]


@quantity("p_mean", "p of the mean of W^T W", "Boyd et al. 2006")
def _p_mean(rounds: Rounds, experiment: Experiment) -> _Values:
    seeds, number, clients = rounds.mix.shape[:3]
    flat, columns = rounds.mix.reshape(seeds, number * clients, clients), rounds.mix.sum(2)
    # The sum of W^T (I - J) W over the rounds, as two products.
    whole = flat.swapaxes(1, 2) @ flat - columns.swapaxes(1, 2) @ columns / clients
    return mixing.mixing_parameter(np.linalg.eigvalsh(whole / number)[:, -1])


@quantity("effective_b", "effective B of union windows, median", "MADFL property 1")
def _effective_b(rounds: Rounds, experiment: Experiment) -> _Values:
    return np.quantile(rounds.effective, 0.5, axis=1, method="higher")


@quantity("effective_b_90", "effective B of union windows, 90 % quantile", "MADFL property 1")
def _effective_b_90(rounds: Rounds, experiment: Experiment) -> _Values:
    return np.quantile(rounds.effective, 0.9, axis=1, method="higher")


@quantity("strong_b", "B of B-strong connectivity", "MADFL property 1")
def _strong_b(rounds: Rounds, experiment: Experiment) -> _Values:
    return strong_window(rounds.closing)


def _is_bounded(rounds: Rounds, experiment: Experiment) -> np.ndarray:
    """[S] bool, whether mixing keeps the mean model: clients may send each other different parts of their models."""
    return rounds.keeps_mean & (not sends_parts(experiment))


@quantity("bound", "A_0 / tau of theorem 1", "MADFL eq. 8")
def _bound(rounds: Rounds, experiment: Experiment) -> _Values:
    windows, clients = strong_window(rounds.closing), rounds.num_clients
    found = [mixing.consensus_factor(p, clients, b) for p, b in zip(rounds.worst_p[1], windows)]
    return np.where(_is_bounded(rounds, experiment), found, np.nan)


@quantity("window", "windowed form: B", "docs/theory.md")
def _window(rounds: Rounds, experiment: Experiment) -> _Values:
    return np.where(_is_bounded(rounds, experiment), rounds.best_windows[0], np.nan)


@quantity("window_p", "windowed form: p of every window", "docs/theory.md")
def _window_p(rounds: Rounds, experiment: Experiment) -> _Values:
    sizes, seeds = rounds.best_windows[0], range(len(rounds.mix))
    found = [rounds.worst_p[int(size)][s] if np.isfinite(size) else np.nan for s, size in zip(seeds, sizes)]
    return np.where(_is_bounded(rounds, experiment), found, np.nan)


@quantity("window_bound", "windowed form: A_0 / tau", "docs/theory.md")
def _window_bound(rounds: Rounds, experiment: Experiment) -> _Values:
    return np.where(_is_bounded(rounds, experiment), rounds.best_windows[1], np.nan)


@quantity("halving", "halving time of mixing (rounds)", "docs/theory.md")
def _halving(rounds: Rounds, experiment: Experiment) -> _Values:
    return rounds.spread.halving


@quantity("drift", "drift", "docs/theory.md")
def _drift(rounds: Rounds, experiment: Experiment) -> _Values:
    return rounds.spread.drift


@quantity("label_drift", "label drift", "docs/theory.md")
def _label_drift(rounds: Rounds, experiment: Experiment) -> _Values:
    labelled = np.count_nonzero(rounds.label_counts.sum((0, 1))) > 1  # linear regression has no labels
    return rounds.spread.labels if labelled else np.full(len(rounds.mix), np.nan)


@quantity("meeting", "meeting time (rounds)", "docs/theory.md")
def _meeting(rounds: Rounds, experiment: Experiment) -> _Values:
    return walks.meeting_times(rounds.following, rounds.is_mobile)


@quantity("cover", "cover time of one mobile client (rounds)", "MADFL III-A2")
def _cover(rounds: Rounds, experiment: Experiment) -> _Values:
    return walks.cover_times(rounds.following, rounds.is_mobile)[0]


@quantity("cover_together", "cover time of all together (rounds)", "MADFL III-A2")
def _cover_together(rounds: Rounds, experiment: Experiment) -> _Values:
    return walks.cover_times(rounds.following, rounds.is_mobile)[1]


@quantity("epsilon", "largest epsilon of a client", "docs/privacy.md")
def _epsilon(rounds: Rounds, experiment: Experiment) -> _Values:
    privacy = PrivacyConfig.of(experiment)
    if not privacy.in_use(experiment) or privacy.cancelling or experiment.algorithm.name in PICKS:
        return None
    assert rounds.active is not None
    assert rounds.num_samples is not None
    sends = rounds.active & (rounds.adjacency & rounds.active[..., None]).any(2)
    return privacy.spent(experiment, rounds.active, sends, rounds.num_samples).max(1)


def _rule(experiment: Experiment) -> RobustNumbers | None:
    """Return the numbers of the rule of aggregation, if it promises something as long as few attack."""
    rule = aggregation_in_use(experiment.algorithm.name, experiment.algorithm.aggregation)
    numbers = numbers_in(experiment, AGGREGATIONS, rule) if rule else None
    return numbers if isinstance(numbers, RobustNumbers) else None


@quantity("too_few", "too few neighbours for the rule, share", "docs/adversaries.md")
def _too_few(rounds: Rounds, experiment: Experiment) -> _Values:
    rule, heard = _rule(experiment), rounds.adjacency.sum(-1)
    return None if rule is None else ((heard > 0) & (heard + 1 < rule.least())).mean((1, 2))


@quantity("outvoted", "more attackers received than the rule bears, share", "docs/adversaries.md")
def _outvoted(rounds: Rounds, experiment: Experiment) -> _Values:
    rule, attack = _rule(experiment), rounds.attacker[:, None, :]
    if rule is None or not attack.any():
        return None
    hostile = (rounds.adjacency & attack[..., None, :]).sum(-1)
    lost = (hostile > np.asarray(rule.bears(rounds.adjacency.sum(-1) + 1))) & ~attack
    return lost.sum((1, 2)) / np.broadcast_to(~attack, lost.shape).sum((1, 2))


def _pame(rounds: Rounds, experiment: Experiment) -> pame.Conditions | None:
    numbers = numbers_in(experiment, ALGORITHMS, experiment.algorithm.name)
    if not isinstance(numbers, PaMENumbers):
        return None
    given = numbers.participation, numbers.transmission, numbers.penalty_growth, numbers.period_min
    return pame.conditions(rounds.adjacency[:, 0], *given)


@quantity("zeta", "zeta of the first graph", "PaME assumption 1")
def _zeta(rounds: Rounds, experiment: Experiment) -> _Values:
    return pame.zeta(rounds.adjacency[:, 0]) if _pame(rounds, experiment) else None


@quantity("pame_left", "condition (12), left side", "PaME (12)")
def _pame_left(rounds: Rounds, experiment: Experiment) -> _Values:
    found = _pame(rounds, experiment)
    return found and found.left


@quantity("pame_right", "condition (12), right side", "PaME (12)")
def _pame_right(rounds: Rounds, experiment: Experiment) -> _Values:
    found = _pame(rounds, experiment)
    return found and found.right


@quantity("pame_holds", "conditions (11), (12) hold, share of seeds", "PaME (11), (12)")
def _pame_holds(rounds: Rounds, experiment: Experiment) -> _Values:
    found = _pame(rounds, experiment)
    return found and found.hold.astype(float)
