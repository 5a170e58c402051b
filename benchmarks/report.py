"""Time the report of a study as a whole process, and weigh its page: python -m benchmarks.report [--made=runs/digits]

Without --made two synthetic studies are written first, each in one or two minutes: 20 sweep points under 10 seeds, that
is 200 runs, of 1,000 rounds and 200 evaluations, with 100 clients and their places and links in every round. In the
first one 20 clients move on a grid, in the second one all move in the plane. Their values are noise in part, which can
hardly be compressed, so that their pages are rather large.
"""

import dataclasses
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from absl import flags

from benchmarks import measure
from mdfl_jax.cli import common
from mdfl_jax.config import default_config
from mdfl_jax.config.points import Point, points
from mdfl_jax.config.resolve import resolve
from mdfl_jax.config.sections import Experiment, effective
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.types import RunFacts
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.results.lines import metric_lines
from mdfl_jax.results.records import Measured, from_devices, read_study, write_record
from mdfl_jax.results.results import write_views
from mdfl_jax.storage.disk import plain, write_json
from mdfl_jax.storage.study_files import CONFIG, STUDY_SCHEMA, run_name, run_path, runs_in
from mdfl_jax.study.identity import name_run, other_config, run_config

_MADE = flags.DEFINE_string("made", "", "Workdir of a finished study, in place of the synthetic ones.")
_REPORTS = flags.DEFINE_integer("reports", 3, "Reports that are timed.", lower_bound=1)

RULES = {
    "20 of 100 clients move on a grid": ("static,random_movement,dam,dcm", 0.2),
    "100 clients move in the plane": ("random_waypoint,random_direction,levy_walk,gauss_markov", 1.0),
}
WIDTH = 20.0  # of the grid and of the square in the plane


class Size(NamedTuple):
    """The size of a synthetic study, whose sweep has four mobility rules and these radii.

    ``records``: whether the places and the links of each round are recorded.
    """

    radii: tuple[float, ...] = (1, 2, 3, 4, 5)
    seeds: int = 10
    rounds: int = 1000
    eval_every: int = 5
    clients: int = 100
    records: bool = True


def _places(rng: np.random.Generator, rounds: int, speed: np.ndarray, whole: bool) -> np.ndarray:
    """Draw walks in a square, which turn at its sides: [R + 1, N, 2] float32, whole numbers on a grid."""
    start, steps = rng.uniform(0, WIDTH, (1, len(speed), 2)), rng.uniform(-1, 1, (rounds, len(speed), 2))
    path = np.concatenate([start, start + np.cumsum(steps * speed[:, None], axis=0)])
    inside = WIDTH - np.abs(path % (2 * WIDTH) - WIDTH)
    return (np.ceil(np.maximum(inside, 0.5)) if whole else inside).astype(np.float32)


def _measured(point: Point, seed: int, moving: float, height: float, records: bool) -> Measured:
    """Draw what a run has measured, whose accuracies rise to about ``height``."""
    network, rounds, n = point.experiment.network, point.experiment.rounds, point.experiment.network.num_clients
    rng = np.random.default_rng([seed, round(1e6 * height)])
    evaluated = np.arange(0, rounds + 1, point.experiment.eval_every, dtype=np.int32)
    mobile = np.arange(n) < moving * n
    values: dict[str, np.ndarray] = {"round": evaluated}
    for metric in BUILT_IN:
        shape = metric.dims(n, 0)
        rise = (1 - np.exp(-5 * evaluated / rounds)).reshape(-1, *[1] * len(shape))
        if not metric.by_round:
            noise = rng.normal(0, 0.01, (len(evaluated), *shape))
            values[metric.name] = (height * rise + noise).astype(np.float32)
    values |= {name: np.full(len(evaluated), np.nan, np.float32) for name in ("validation_loss", "objective")}
    values |= {"rounds_done": evaluated, "messages": np.abs(1000 * values["messages"]).astype(np.int32)}
    values["bits"] = np.abs(1e6 * values["bits"]).astype(np.uint32)
    values |= {"position": np.zeros((0, n, 2), np.float32), "links": np.zeros((0, n, -(-n // 8)), np.uint8)}
    if records:
        values["position"] = _places(rng, rounds, 2.0 * mobile * (network.mobility != "static"), whole=moving < 1)
        x, y = np.moveaxis(values["position"][:-1], -1, 0)
        near = np.hypot(x[:, :, None] - x[:, None], y[:, :, None] - y[:, None]) <= network.radius
        values["links"] = np.packbits(near & ~np.eye(n, dtype=bool), axis=-1)
    facts = RunFacts(rng.integers(0, 40, (n, 10), np.int32), mobile, np.ones(n, bool))
    metrics = Metrics(BUILT_IN, values)
    lines = plain(list(metric_lines(point.id, seed, metrics, mobile, None)))
    return from_devices(seed, metrics, facts, lines, 1.0, 10.0)


def _study(rules: str, moving: float, size: Size) -> Experiment:
    """Make the configuration of a synthetic study."""
    config = default_config()
    config.name, config.title = "synthetic", "A synthetic study, which nobody has run"
    config.sweep = f"network.mobility={rules}; network.radius={','.join(map(str, size.radii))}"
    config.baseline = f"network.mobility={rules.split(',')[0]}"
    config.seeds, config.rounds, config.eval_every, config.target = size.seeds, size.rounds, size.eval_every, 0.5
    config.network.num_clients, config.network.num_mobile = size.clients, round(moving * size.clients)
    config.network.grid_size = round(WIDTH)
    config.motion.width = config.motion.height = WIDTH
    return resolve(config)


def write(folder: Path, variant: str, size: Size = Size(), views: bool = True) -> None:
    """Write the workdir of a synthetic study, one of `RULES`, without the views if these are not wanted."""
    rules, moving = RULES[variant]
    experiment = _study(rules, moving, size)
    found, entries = points(experiment), list[dict[str, Any]]()
    made: dict[str, Any] = {"command": "python -m benchmarks.report", "commit": None, "versions": {}, "devices": []}
    for point, height in zip(found, np.linspace(0.4, 0.9, len(found))):
        name, runs = name_run(point.experiment, {}, {}), []
        header = {
            "config": run_config(point.experiment),
            "metrics": [],
            "accuracy_is": "",
            "goes_on_from": [],
            "other": other_config(point.experiment),
            "made": made,
        }
        for seed in range(size.seeds):
            runs.append(run_name(name, seed, size.rounds))
            measured = _measured(point, seed, moving, height, size.records)
            write_record(run_path(folder, runs[-1]), measured, plain(header))
        numbers = effective(point.experiment)
        entries.append({"id": point.id, "overrides": point.overrides, "numbers": numbers, "runs": runs})
    manifest: dict[str, Any] = {"schema": STUDY_SCHEMA, "name": experiment.name, "title": experiment.title}
    manifest |= {"status": "finished", "config": dataclasses.asdict(experiment), "points": entries}
    manifest = plain(manifest | {"seeds": list(range(size.seeds))} | made)
    write_json(folder / CONFIG, manifest)
    if views:
        write_views(folder, manifest)


def row(workdir: Path, variant: str, repeats: int) -> dict[str, Any]:
    """Time `mdfl report`, with tables, figures and page, and weigh report.html.

    Args:
      workdir: The folder of a finished study, to which nothing is written.
      variant: What the row calls it.
      repeats: The number of timed processes.

    Returns:
      The row, with the median, the least and the largest seconds, and the size of the page in MB of 1e6 bytes.
    """
    runs = sum(1 for _ in runs_in(read_study(workdir)))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "launch.report", str(workdir), f"--out={folder}"]
        found = [measure.process(command) for _ in range(repeats)]
        page = (Path(folder) / "report.html").stat().st_size
    return {
        "variant": variant,
        "runs": runs,
        "seconds": measure.spread([seconds for seconds, _ in found]),
        "peak_resident_mib": max(mib for _, mib in found),
        "page_mb": page / 1e6,
    }


def main() -> int:
    """Print a row for the named study, or for each synthetic one."""
    if _MADE.value:
        if not Path(_MADE.value).is_dir():
            raise UserError(f"--made={_MADE.value}: no such directory")
        measure.report("report", [row(Path(_MADE.value), _MADE.value, _REPORTS.value)])
        return 0
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for k, variant in enumerate(RULES):
            workdir = Path(folder) / str(k)
            write(workdir, variant)
            rows.append(row(workdir, variant, _REPORTS.value))
    measure.report("report", rows)
    return 0


if __name__ == "__main__":
    common.run_command(main)
