"""Draw one panel for each mobility model of the plane: ``python -m benchmarks.mobility_models [FILE.png]``."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np

from mdfl_jax.core.geometry import points_of
from mdfl_jax.core.numbers import Numbers
from mdfl_jax.mobility import MOBILITIES, Motion, PlaneWorld
from mdfl_jax.networks.worlds import typed_motion

matplotlib.use("Agg")
import matplotlib.pyplot as plt

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
SIZE = 500.0
# For each model: the number of rounds, the number of clients, the text below its name, and its numbers.
PANELS: dict[str, tuple[int, int, str, dict]] = {
    "random_walk": (14, 4, "two fast and two slow clients", {"speed_max": 40.0}),
    "random_waypoint": (80, 3, "1 to 20 m/s, pauses of 0 to 10 s", {"speed_max": 20.0, "pause_max": 10.0}),
    "random_direction": (80, 3, "legs of 15 s on average", {"speed_min": 8.0, "speed_max": 16.0, "leg_time": 15.0}),
    "gauss_markov": (120, 3, "memory 0.9, deviation 6 m/s", {"alpha": 0.9, "speed_std": 6.0}),
    "manhattan": (120, 3, "blocks of 100 m, half of the crossings turn", {"speed_min": 8.0, "speed_max": 14.0}),
    "levy_walk": (250, 3, "flights of 4 to 500 m, exponent 1.2", {"speed_min": 10.0, "speed_max": 10.0, "flight_min": 4.0, "flight_exponent": 1.2}),  # noqa: E501
    "group": (60, 4, "two groups of two within 40 m", {"groups": 2, "group_radius": 40.0, "speed_min": 6.0, "speed_max": 12.0}),  # noqa: E501
    "patrol": (60, 3, "round a given loop", {"loop": "60,60; 440,60; 440,250; 250,440; 60,330", "speed_min": 3.0, "speed_max": 12.0}),  # noqa: E501
}  # fmt: skip


def tracks(name: str, rounds: int, num_clients: int, numbers: Numbers, seed: int) -> list[np.ndarray]:
    """Run a mobility rule for some rounds of 1 s in a square of `SIZE` metres.

    Args:
      name: The name of the rule.
      rounds: The number of rounds.
      num_clients: N. Under random_walk the first two of them are fast.
      numbers: The rule's numbers.
      seed: The seed of the places and the movement.

    Returns:
      The breakpoints of each client's path: N arrays [rounds * breakpoints, 2], in metres.
    """
    rule, motion = MOBILITIES[name](), typed_motion(Motion())
    size = jnp.stack([motion.width, motion.height])
    key_start, key_init, key = jax.random.split(jax.random.key(seed), 3)
    world = PlaneWorld(
        size=size,
        start=jax.random.uniform(key_start, (num_clients, 2)) * size,
        is_mobile=jnp.arange(num_clients) < (2 if name == "random_walk" else num_clients),
        label_counts=jnp.zeros((num_clients, 1), jnp.int32),
        radius=jnp.float32(45.0),
        motion=motion,
        numbers=numbers.typed(),
    )
    assert rule.path is not None
    path_of = rule.path

    def step(state: object, t: jax.Array) -> tuple[object, jax.Array]:
        state = rule.step(jax.random.fold_in(key, t), world, state)
        return state, path_of(world, state).points

    points = jax.lax.scan(step, rule.init(key_init, world), jnp.arange(rounds))[1]
    return list(np.swapaxes(np.asarray(points), 0, 1).reshape(num_clients, -1, 2))


def draw(file: Path) -> None:
    """Draw the figure and write it to the file."""
    plt.rcParams.update({"font.family": "sans-serif", "font.size": 9})
    figure, grid = plt.subplots(2, 4, figsize=(12.4, 7.2), sharex=True, sharey=True)
    for seed, (axes, (name, (rounds, number, says, changes))) in enumerate(zip(grid.flat, PANELS.items())):
        if name == "manhattan":
            for street in np.arange(0, SIZE + 1, 100):
                axes.plot([street, street], [0, SIZE], [0, SIZE], [street, street], color="#e6e6e6", lw=5, zorder=0)
        if name == "patrol":
            axes.add_patch(plt.Polygon(points_of("loop", changes["loop"]), fill=False, color="#e6e6e6", lw=5, zorder=0))
        for colour, way in zip(COLOURS, tracks(name, rounds, number, MOBILITIES.numbers(name)(**changes), seed + 12)):
            axes.plot(*way.T, color=colour, lw=1.3, alpha=0.85, solid_joinstyle="round")
            axes.scatter(*way[0], s=34, facecolor="white", edgecolor=colour, linewidth=1.6, zorder=3)
            axes.scatter(*way[-1], s=34, facecolor=colour, edgecolor="white", linewidth=0.8, zorder=4)
        axes.set_title(name, loc="left", fontsize=11, fontweight="bold", pad=18)
        axes.text(0, 1.025, f"{says}; {rounds} s", transform=axes.transAxes, color="#555555", fontsize=8)
        margin = 0.025 * SIZE
        axes.set(xlim=(-margin, SIZE + margin), ylim=(-margin, SIZE + margin), aspect="equal")
        axes.set_xticks([0, 250, 500])
        axes.set_yticks([0, 250, 500])
        axes.add_patch(plt.Rectangle((0, 0), SIZE, SIZE, fill=False, color="#333333", lw=1.0))
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, colors="#555555")
    for axes in grid[1]:
        axes.set_xlabel("metres", color="#555555")
    for axes in grid[:, 0]:
        axes.set_ylabel("metres", color="#555555")
    figure.text(0.5, 0.012, "open circle: start, full circle: end", ha="center", color="#555555")
    figure.subplots_adjust(left=0.05, right=0.99, top=0.92, bottom=0.1, wspace=0.1, hspace=0.26)
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures/mobility_models.png"))
