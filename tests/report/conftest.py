"""A small synthetic study, told by its views: the report shows what a study says, whatever a test lets it say."""

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MOBILITY = ("static", "random_movement", "dam", "dcm")


def config(rounds: int, every: int, clients: int, grid: int, seeds: int, radius: float) -> dict[str, Any]:
    network = {"num_clients": clients, "num_mobile": clients // 4, "grid_size": grid, "radius": radius, "max_step": 3}
    told = {"rounds": rounds, "eval_every": every, "seeds": seeds, "target": 0.7, "baseline": "static"}
    return told | {
        "data": {"name": "mnist", "partition": "dirichlet", "alpha": 0.05, "standardise": True},
        "model": {"name": "cnn"},
        "network": {**network, "mobility": "static", "mixing": "metropolis_hastings"},
        "algorithm": {"name": "dpsgd", "lr": 0.01, "local_steps": 1},
    }


def walk(rng: np.random.Generator, mobility: str, rounds: int, mobile: np.ndarray, grid: int) -> np.ndarray:
    """Positions [R+1, N, 2] on the grid points 1..G; only mobile clients of a moving pattern move."""
    path = [rng.integers(1, grid + 1, (len(mobile), 2))]
    goals = rng.integers(1, grid + 1, (len(mobile), 4, 2))
    for t in range(rounds):
        step = rng.integers(-3, 4, path[0].shape)
        if mobility in ("dam", "dcm"):
            step = np.clip(goals[:, (t // 4) % 4] - path[-1], -3, 3)
        path.append(np.clip(path[-1] + step * mobile[:, None] * (mobility != "static"), 1, grid))
    return np.stack(path)


def statistic(values: np.ndarray) -> dict[str, Any]:
    std = None if len(values) == 1 else float(values.std(ddof=1))
    half = None if std is None else 2.5706 * std / np.sqrt(len(values))
    return {"mean": float(values.mean()), "std": std, "ci95": half, "per_seed": values.tolist()}


def write_workdir(
    folder: Path,
    overrides: list[dict[str, Any]] | None = None,
    *,
    seeds: int = 3,
    rounds: int = 40,
    every: int = 10,
    clients: int = 8,
    grid: int = 10,
    radius: float = 3.0,
    positions: bool = True,
    title: str | None = None,
) -> Path:
    """Writes config.json, views and empty records; one point for each dict of overrides."""
    overrides = [{"network.mobility": name} for name in MOBILITY] if overrides is None else overrides
    folder.mkdir(parents=True, exist_ok=True)
    evals = np.arange(0, rounds + 1, every)
    arrays: dict[str, np.ndarray] = {"rounds": evals}
    lines, points, base = [], [], None
    for p, override in enumerate(overrides):
        name = "-".join(str(value) for value in override.values()) or "base"
        rng = np.random.default_rng(7)  # the same for all points: data and places are shared
        counts = (rng.dirichlet(np.full(clients, 0.05), (seeds, 10)).transpose(0, 2, 1) * 6000).astype(int)
        mobile = np.zeros((seeds, clients), bool)
        for row in mobile:
            row[rng.choice(clients, clients // 4, replace=False)] = True
        top = 0.62 + 0.05 * min(p, 4) + 0.01 * p + rng.normal(0, 0.02, (seeds, 1, 1))
        curve = 0.1 + (top - 0.1) * (1 - np.exp(-evals[None, :, None] / rounds * (4 + p)))
        accuracy = np.clip(curve + rng.normal(0, 0.01, (seeds, len(evals), clients)), 0, 1)
        arrays |= {f"{p}/accuracy": accuracy, f"{p}/label_counts": counts, f"{p}/is_mobile": mobile}
        if positions:
            mobility = str(override.get("network.mobility", "random_movement"))
            world = np.random.default_rng(11)
            arrays[f"{p}/position"] = np.stack([walk(world, mobility, rounds, row, grid) for row in mobile])
        final = accuracy[:, -1]
        base = final.mean(1) if base is None else base
        difference = statistic(final.mean(1) - base)
        points.append(
            {
                "id": name,
                "overrides": override,
                "final_accuracy": statistic(final.mean(1)),
                "best_accuracy": statistic(accuracy.mean(2).max(1)),
                "difference_to_baseline": {key: difference[key] for key in ("mean", "ci95")} if p else None,
                "worst_client_accuracy": statistic(final.min(1)),
                "rounds_to_target": rounds - 10 * p if p else None,
                "bits_sent_per_client": 1.6e9 + 1e8 * p,
                "distance_moved_per_mobile_client": 123.4 * p,
                "compile_seconds": 3.2,
                "run_seconds": 10.0,
            }
        )
        for (s, e), mean in np.ndenumerate(accuracy.mean(2)):
            line = {"schema": 1, "point": name, "seed": s, "round": int(evals[e]), "accuracy": float(mean)}
            lines.append(line | {"train_loss": 0.3 if e else None, "lambda_2": None})
    runs = [[f"dpsgd.static-{p:016x}-s{seed}-r{rounds}" for seed in range(seeds)] for p in range(len(points))]
    (folder / "runs").mkdir(exist_ok=True)
    for name in itertools.chain(*runs):
        (folder / "runs" / f"{name}.safetensors").touch()
    manifest = {
        "schema": 2,
        "name": "synthetic",
        "config": config(rounds, every, clients, grid, seeds, radius),
        "points": [
            {"id": of["id"], "overrides": of["overrides"], "runs": of_point} for of, of_point in zip(points, runs)
        ],
        "seeds": list(range(seeds)),
        "commit": "0123abc",
        "versions": {"python": "3.11.9", "jax": "0.10.2", "mdfl_jax": "0.1.0"},
        "devices": ["TFRT_CPU_0", "TFRT_CPU_1"],
        "compile_seconds": 12.8,
        "run_seconds": 40.0,
        "command": "python -m launch.sweep --config=configs/synthetic.py",
        "status": "finished",
    } | ({} if title is None else {"title": title})
    (folder / "config.json").write_text(json.dumps(manifest))
    (folder / "summary.json").write_text(json.dumps({"schema": 1, "baseline": points[0]["id"], "points": points}))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    np.savez(folder / "history.npz", **arrays)
    return folder


@contextlib.contextmanager
def told_by_views() -> Iterator[None]:
    """Inside, a folder of `write_workdir`, whose records are empty, is read from its views."""
    from mdfl_jax.results.results import Results
    from mdfl_jax.storage.study_files import read_config, read_lines, read_streets

    of_records = Results.open.__func__  # type: ignore[attr-defined]

    def opened(cls: Any, workdir: Path) -> Any:
        if not (workdir / "summary.json").exists() or any(path.stat().st_size for path in workdir.glob("runs/*")):
            return of_records(cls, workdir)
        manifest, summary = read_config(workdir), json.loads((workdir / "summary.json").read_text())
        with np.load(workdir / "history.npz") as history:
            arrays = dict(history)
        return cls(manifest, summary, read_lines(workdir / "metrics.jsonl"), arrays, workdir, read_streets(workdir))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Results, "open", classmethod(opened))
        yield


@pytest.fixture(scope="package", autouse=True)
def _told_by_views() -> Iterator[None]:
    with told_by_views():
        yield


@pytest.fixture
def make_workdir(tmp_path: Path) -> Callable[..., Path]:
    """Writes a workdir under tmp_path with the given options of `write_workdir`."""
    return lambda *args, **options: write_workdir(tmp_path / "run", *args, **options)


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., Any]:
    """Returns study(*args, **options): the study of a workdir of `write_workdir`, which is another one at each call."""
    from mdfl_jax.results.results import Results

    folders = (tmp_path / f"study{i}" for i in itertools.count())
    return lambda *args, **options: Results.read(write_workdir(next(folders), *args, **options)).shown()


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workdir of four points and three seeds whose report is written, with markup in its title. Do not change it."""
    from mdfl_jax.results.results import Results

    folder = write_workdir(tmp_path_factory.mktemp("reported"), title='Moves & <b>"mixes"</b>')
    with told_by_views():
        Results.read(folder).report()
    return folder


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory, reported: Path) -> Callable[[str], Path]:
    """Returns folder_of(kind): the folder of one of `tests.report.kinds.KINDS` with its page, made once a session."""
    from tests.report.kinds import KINDS, write_page

    made = {"plain": reported}

    def folder(kind: str) -> Path:
        if kind not in made:
            with told_by_views():
                made[kind] = write_page(KINDS[kind](tmp_path_factory.mktemp("kind") / "run"))
        return made[kind]

    return folder
