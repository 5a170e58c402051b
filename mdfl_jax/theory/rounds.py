"""The rounds of a network under some seeds, with what several quantities of theory share: computed once, on demand."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdfl_jax.theory import mixing, unions


@dataclass(frozen=True)
class Rounds:
    """The links of a network in R rounds under S seeds.

    Attributes:
      adjacency: [S, R, N, N] bool, [..., i, j] is true where i hears j.
      mix: [S, R, N, N] float64 mixing matrices; rows sum to one.
      label_counts: [S, N, C] the samples of each label that each client holds.
      is_mobile: [S, N] bool; False everywhere in a network that is not a space.
      position: [S, N, 2] the places before the first round.
    """

    adjacency: np.ndarray
    mix: np.ndarray
    label_counts: np.ndarray
    is_mobile: np.ndarray
    position: np.ndarray

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
    def spread(self) -> mixing.Spread:
        """How fast models come together, and how far gradients keep them apart (`mixing.spread`)."""
        samples = self.label_counts.sum(-1, keepdims=True)
        return mixing.spread(self.mix, self.label_counts / np.maximum(samples, 1))

    @cached_property
    def following(self) -> np.ndarray:
        """[S, R, N, N] int32, the next round of each link (`unions.next_links`)."""
        return unions.next_links(self.adjacency)

    @cached_property
    def closing(self) -> np.ndarray:
        """[S, R] int32, the round in which the union from each round on connects all (`unions.closing_rounds`)."""
        return unions.closing_rounds(self.following)

    @cached_property
    def effective(self) -> np.ndarray:
        """[S, ceil(R / 2)] the effective B of each first round (`unions.effective_windows`)."""
        return unions.effective_windows(self.closing)

    @cached_property
    def best_windows(self) -> tuple[np.ndarray, np.ndarray]:
        """The B with the smallest windowed factor [S], NaN without a finite one, and this factor [S]."""
        sizes = np.array(list(self.worst_p))
        factors = np.stack([mixing.windowed_factor(p, size) for size, p in self.worst_p.items()])
        best, least = factors.argmin(0), factors.min(0)
        return np.where(np.isfinite(least), sizes[best].astype(float), np.nan), least
