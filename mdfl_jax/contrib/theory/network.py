"""Simulates the networks of a study without training, and shows the quantities of theory of each sweep point."""

import dataclasses
import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from mdfl_jax.config.checks import keys_of
from mdfl_jax.config.points import Point
from mdfl_jax.config.sections import Experiment, participation_of
from mdfl_jax.contrib.energy.battery import EnergyConfig
from mdfl_jax.contrib.theory.mixing import exact
from mdfl_jax.contrib.theory.quantities import QUANTITIES, Rounds
from mdfl_jax.core import devices, rng, stages
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.outcomes import enumerated, interval
from mdfl_jax.core.trees import of_types
from mdfl_jax.core.types import Held, Hparams
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.exchange.largest import fitting
from mdfl_jax.metrics.values import LAMBDA_2_LIMIT
from mdfl_jax.networks.costs import is_filtered
from mdfl_jax.networks.wrappers.roadside import ServerConfig
from mdfl_jax.study.study import Group, Study, make_study

BATCH = 4_000_000  # entries of the mixing matrices of the rounds and seeds that are computed together: 32 MB
_MOST = 100_000_000  # of one seed: 0.8 GB, and about 2.5 GB in all
_BINS = 24  # lengths of windows of the curve of the union windows
WIDTH = 118  # characters of a line; more points continue in a further block
_ROUNDING = 1e-9  # an interval that is smaller relative to the mean is rounding error


class _Observed(NamedTuple):
    """The quantities and curves of theory of a sweep point.

    Attributes:
      values: for each quantity that applies, its value for each seed, [S].
      window: [K] the lengths B of the windows of ``window_p``.
      window_p: [S, K] the mean over the windows of 1 minus the contraction.
      union: [L] numbers of rounds.
      connected: [S, L] the share of the first rounds whose union with those after it, in all so many, is connected.
    """

    values: dict[str, np.ndarray]
    window: np.ndarray
    window_p: np.ndarray
    union: np.ndarray
    connected: np.ndarray


def mixes(experiment: Experiment) -> bool:
    """Tell whether the clients of a point mix their models with each other, and not through a server."""
    return not ServerConfig.of(experiment).pattern


def alone(config: ConfigDict, seeds: int, rounds: int) -> ConfigDict:
    """Return a copy of a study's configuration for its networks alone.

    Args:
      config: the configuration.
      seeds: the number of seeds under which networks are simulated.
      rounds: the number of rounds; 0: that of the study.
    """
    found = config.copy_and_resolve_references()
    found.seeds = seeds
    if rounds:
        found.rounds = found.eval_every = rounds
    found.engine.links, found.engine.max_neighbours = "dense", 0
    return found


def of_config(config: ConfigDict, points: Sequence[Point], only: Collection[str] = ()) -> list[_Observed | None]:
    """Compute the quantities of theory of the points of a configuration, as `of_study` does.

    Nothing is built if no point mixes.

    Args:
      config: the configuration, from `alone`.
      points: its points.
      only: the names of the quantities to compute, without the curves; by default all and the curves.

    Raises:
      UserError: as `check_points`, or if anything in the configuration is wrong.
    """
    if not any(mixes(point.experiment) for point in points):
        return [None] * len(points)
    check_points(points)
    return of_study(make_study(config), only)


def check_points(points: Sequence[Point]) -> None:
    """Check that the networks of all points can be simulated alone, and that theory can hold their matrices.

    Raises:
      UserError: for a point with too many clients, or too many rounds for them, or with batteries.
    """
    for point in points:
        if given := EnergyConfig.of(point.experiment).capacity:
            raise UserError(f"energy.capacity is {given:g}; it must be 0: theory trains nothing, so no energy is used")
        clients, rounds = point.experiment.network.num_clients, point.experiment.rounds
        if clients > LAMBDA_2_LIMIT:
            raise UserError(f"network.num_clients is {clients}; theory computes matrices of at most {LAMBDA_2_LIMIT}")
        if rounds * clients**2 > _MOST:
            least = _MOST // clients**2
            raise UserError(f"rounds is {rounds}; theory of {clients} clients takes at most {least} (see --rounds)")


def simulated(simulation: Simulation, num_rounds: int) -> Any:
    """Return the program of a network's rounds: (data, hparams, keys [S]) -> the fields of `Rounds`."""
    network = simulation.network
    if network.hooks.compares:
        raise UserError("network.mobility has a rule that moves clients by their models, and theory trains none")

    def one(data: Any, hparams: Hparams, key: jax.Array) -> tuple[jax.Array, ...]:
        held = Held.by(simulation.partition(data, hparams, key))
        start = network.init(hparams.network, key, held)

        def step(state: Any, index: jax.Array) -> tuple[Any, tuple[jax.Array, ...]]:
            after, links = network.step(hparams.network, key, index, state, held)
            mix = links.mix
            if links.channel.capacity is not None:
                last = jax.eval_shape(simulation.init, data, hparams, key)[0].algorithm.last
                mix = in_shares(mix, fitting(links.channel.capacity, last) / last.shape[1])
            active = jnp.ones(network.num_clients, bool) if links.active is None else links.active
            return of_types(after, state), (links.adjacency, mix, active)

        adjacency, mix, active = jax.lax.scan(step, start, jnp.arange(num_rounds, dtype=jnp.int32))[1]
        places = network.places(start)
        attacker = ~network.hooks.counted(start) if network.hooks.counted else jnp.zeros(network.num_clients, bool)
        rest = held.label_counts, places.is_mobile, places.position, attacker, held.num_samples, active
        return adjacency, mix, *rest

    return jax.jit(jax.vmap(one, in_axes=(None, None, 0)))


def in_shares(mix: jax.Array, share: jax.Array) -> jax.Array:
    """Return the mean of the matrices by which the single coordinates are mixed, of links that carry some of them.

    Args:
      mix: [N, N] the mixing matrix of the coordinates that all links carry.
      share: [N, N] the share of the coordinates that each link carries. A client keeps its own values of the others.
    """
    kept = mix * (1 - share)
    return mix - kept + jnp.diag(jnp.sum(kept, axis=1))


def _compiled(group: Group, experiment: Experiment, num_rounds: int, num_seeds: int) -> Any:
    """Compile `simulated` for the points of a group, which differ from its first one in traced numbers only."""
    keys = keys_of(experiment, [0] * num_seeds)
    with rng.small_threefry():
        program = simulated(group.simulation, num_rounds).lower(group.simulation.data, group.hparams[0], keys)
    return program.compile(devices.compiler_options())


def observe(rounds: Rounds, experiment: Experiment, only: Collection[str] = ()) -> _Observed:
    """Compute the quantities of theory of a sweep point from some of its seeds; ``only`` as in `of_config`."""
    found = {name: QUANTITIES[name].of(rounds, experiment) for name in only or QUANTITIES.as_registered()}
    values = {name: np.asarray(value, np.float64) for name, value in found.items() if value is not None}
    if only:
        none = np.zeros((len(rounds.mix), 0))
        return _Observed(values, none[0], none, none[0], none)
    window_p = np.stack([1 - factors.mean(1) for factors in rounds.contractions.values()], axis=1)
    union = np.unique(np.geomspace(1, max(rounds.effective.shape[1], 1), _BINS).round())
    connected = (rounds.effective[:, None, :] <= union[:, None]).mean(2)
    return _Observed(values, np.array(list(rounds.contractions)), window_p, union, connected)


def _key(experiment: Experiment) -> str:
    """Return a text that is the same for points of a group whose networks are the same.

    The algorithm's numbers count only through the participation, unless messages that take too long are left out.
    """
    if is_filtered(experiment):
        return repr(experiment)
    without: Any = dataclasses.replace(experiment, algorithm=None, model=None)  # type: ignore[arg-type]
    return repr((without, participation_of(experiment)))


def _alike(study: Study, group: Group) -> Iterator[list[int]]:
    """Yield the points of a group that have the same network, by index."""
    found: dict[str, list[int]] = {}
    for index in group.points:
        found.setdefault(_key(study.points[index].experiment), []).append(index)
    yield from found.values()


def _joined(parts: Sequence[_Observed]) -> _Observed:
    """Join the quantities of several batches of seeds."""
    values = {name: np.concatenate([part.values[name] for part in parts]) for name in parts[0].values}
    window_p, connected = (np.concatenate([getattr(p, name) for p in parts]) for name in ("window_p", "connected"))
    return _Observed(values, parts[0].window, window_p, parts[0].union, connected)


@stages.stage("simulating the networks")
def of_study(study: Study, only: Collection[str] = ()) -> list[_Observed | None]:
    """Compute the quantities of theory of each point of a study, from its network under all seeds.

    Batches of seeds are simulated and analysed side by side on the cores of the host.

    Args:
      study: the study, from `mdfl_jax.study.make_study`, with matrices as links.
      only: as in `of_config`.

    Returns:
      An entry for each point; None where the clients do not mix their models.
    """
    found: list[_Observed | None] = [None] * len(study.points)
    entries = study.experiment.rounds * max(point.experiment.network.num_clients for point in study.points) ** 2
    size = max(1, min(BATCH // entries, -(-len(study.seeds) // devices.num_cores())))
    for group in study.groups:
        first = study.points[group.points[0]].experiment
        if not mixes(first) or not group.simulation.algorithm.needs & {"mix", "adjacency"}:
            continue
        program = _compiled(group, first, study.experiment.rounds, size)
        for alike in _alike(study, group):
            for index, values in zip(alike, _of_points(study, group, program, alike, size, only)):
                found[index] = values
    return found


def _of_points(
    study: Study, group: Group, program: Any, alike: list[int], size: int, only: Collection[str]
) -> list[_Observed]:
    """Observe some points of a group that have the same network, with a program for so many seeds at a time."""
    data, hparams = group.simulation.data, group.hparams[group.points.index(alike[0])]

    def of_batch(begin: int) -> list[_Observed]:
        seeds = study.seeds[begin : begin + size]
        padded = (seeds * size)[:size]  # the last batch may be shorter, and the program is not compiled again for it
        computed = jax.device_get(program(data, hparams, keys_of(study.points[alike[0]].experiment, padded)))
        adjacency, mix, *rest = (values[: len(seeds)] for values in computed)
        rounds = Rounds(adjacency, exact(mix), *rest)
        return [observe(rounds, study.points[index].experiment, only) for index in alike]

    large = size * study.experiment.rounds * study.points[alike[0]].experiment.network.num_clients ** 2 > BATCH
    with ThreadPoolExecutor(1 if large else devices.num_cores()) as pool:
        parts = list(pool.map(of_batch, range(0, len(study.seeds), size)))
    return [_joined([part[k] for part in parts]) for k in range(len(alike))]


def _short(value: float, digits: int = 3) -> str:
    """Format a number with so many digits, without an exponent below a million.

    >>> [_short(v) for v in (0.0, 0.08642, 17.25, 1234.5, 3.1e8, math.inf)]
    ['0', '0.0864', '17.2', '1230', '3.1e+08', 'inf']
    """
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if 10**digits <= abs(value) < 1e6 else text


def cell(values: np.ndarray) -> str:
    """Format the values of the seeds [S]: the mean with the 95 % interval.

    If some are infinite, it is the median and the share that is infinite; '-' if none is known.

    >>> cell(np.array([1.0, 2.0, 3.0])), cell(np.array([5.0, 7.0, 9.0, np.inf])), cell(np.array([np.nan]))
    ('2 ± 2.5', '7; 25% inf', '-')
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return "-"
    infinite = np.isinf(known).mean()
    if infinite == 1:
        return "inf"
    if infinite:
        return f"{_short(float(np.quantile(known, 0.5, method='lower')))}; {infinite:.0%} inf"
    found = interval(known)
    half = found["ci95"] or 0.0
    return _short(found["mean"]) + (f" ± {_short(half, 2)}" if half > _ROUNDING * abs(found["mean"]) else "")


def _blocks(names: list[str], columns: list[list[str]], labels: list[str]) -> list[str]:
    """Arrange columns [points][quantities] beside their labels, as many points in a block as a line holds."""
    first = max(map(len, labels))
    widths = [max(map(len, (name, *column))) for name, column in zip(names, columns)]
    lines: list[str] = []
    begin = 0
    while begin < len(names):
        end, used = begin, first
        while end < len(names) and (end == begin or used + 2 + widths[end] <= WIDTH):
            used, end = used + 2 + widths[end], end + 1
        of_block = range(begin, end)
        lines += [""] if begin else []
        lines.append("  ".join(["".ljust(first), *(names[k].rjust(widths[k]) for k in of_block)]))
        for row, label in enumerate(labels):
            lines.append("  ".join([label.ljust(first), *(columns[k][row].rjust(widths[k]) for k in of_block)]))
        begin = end
    return lines


def table(points: Sequence[Point], observed: Sequence[_Observed | None]) -> str:
    """Arrange the quantities of a study's points as a table: a row for each quantity that a point has.

    Args:
      points: the points.
      observed: the quantities of each, from `of_study`; points with None are left out.
    """
    pairs = [(point.id, found) for point, found in zip(points, observed) if found]
    of_point = lambda found, name: cell(found.values.get(name, np.array([np.nan])))  # noqa: E731
    shown = [name for name in QUANTITIES.as_registered() if any(of_point(found, name) != "-" for _, found in pairs)]
    columns = [[of_point(found, name) for name in shown] for _, found in pairs]
    return "\n".join(_blocks([name for name, _ in pairs], columns, [QUANTITIES[name].label for name in shown]))


def conclusion(points: Sequence[Point], observed: Sequence[_Observed | None]) -> str:
    """Return in a sentence how soon the links of each point connect all clients; "" where no point has an effective B.

    Points are ordered by the median of the effective B over the seeds. Two neighbours in this order are named together
    if the 95 % interval of their difference, paired by seed, includes zero, or if neither connects all clients.
    """
    pairs = [(point.id, of.values) for point, of in zip(points, observed) if of]
    found = [(name, values["effective_b"]) for name, values in pairs if "effective_b" in values]
    found.sort(key=lambda of: float(np.median(of[1])))
    if len(found) == 1 and np.isfinite(found[0][1]).all():
        return f"In words: the links of {cell(found[0][1])} rounds connect all clients."
    if len(found) < 2:
        return "".join(f"In words: under {name}, some seeds' links never connect all clients." for name, _ in found)
    groups = [[found[0][0]]]
    for (_, before), (name, values) in itertools.pairwise(found):
        if _apart(before, values):
            groups.append([])
        groups[-1].append(name)
    never = [name for name, values in found if np.isinf(np.median(values))]
    order = ", then ".join(enumerated(of) for of in groups if of[0] not in never)
    said = [f"the links connect all clients soonest under {order}"] if order else []
    said += [f"under {enumerated(never)} mostly never"] if never else []
    return f"In words: {'; '.join(said)}. MADFL's bound on the error grows with this time, the effective B."


def _apart(soon: np.ndarray, late: np.ndarray) -> bool:
    """Tell whether the seeds [S] tell two effective B apart; an infinite one is later than any finite one."""
    if np.isinf(np.median(late)):
        return not np.isinf(np.median(soon))
    both = np.isfinite(soon) & np.isfinite(late)
    if both.sum() < 3:
        return False
    gap = interval((late - soon)[both])
    return gap["mean"] > gap["ci95"]


def as_json(points: Sequence[Point], observed: Sequence[_Observed | None], config: ConfigDict) -> dict[str, Any]:
    """Return the same numbers for a JSON file, with those of each seed and the curves of the pictures.

    Infinite values are the text 'inf', and unknown ones None.

    Args:
      points, observed: as in `table`.
      config: the study's configuration, of which the seeds and the rounds are noted.
    """
    content = []
    for point, found in zip(points, observed):
        if found is None:
            continue
        values = {name: [_plain(v) for v in of] for name, of in found.values.items()}
        curves = {
            "window": found.window.tolist(),
            "window_p": found.window_p.mean(0).tolist(),
            "union": found.union.tolist(),
            "connected": found.connected.mean(0).tolist(),
        }
        content.append({"point": point.id, "overrides": point.overrides, "per_seed": values, "curves": curves})
    described = {
        name: {"label": QUANTITIES[name].label, "source": QUANTITIES[name].source}
        for name in QUANTITIES.as_registered()
    }
    seeds = list(range(config.first_seed, config.first_seed + config.seeds))
    return {"seeds": seeds, "rounds": config.rounds, "quantities": described, "points": content}


def _plain(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return float(value) if math.isfinite(value) else str(float(value))
