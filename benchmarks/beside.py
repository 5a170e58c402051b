"""The rivals of a study of the arena beside the points of another study with the same data, places and seeds.

The rules of `arena_digits_met` are compared so with rules that have an oracle, and relays with none at all, of which
`arena_movers` has the runs.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.contrib.panels.rivals import Matrix
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.outcomes import t_quantile
from mdfl_jax.results.results import Results


def over_all(values: np.ndarray) -> dict[str, float]:
    """Return the mean of values [R, S] over settings and seeds, and half of its 95 % interval over the seeds."""
    of_seed = values.mean(axis=0)
    half = t_quantile(len(of_seed) - 1) * of_seed.std(ddof=1) / np.sqrt(len(of_seed))
    return {"mean": float(of_seed.mean()), "half": float(half)}


def accuracy_with_data(made: Path, run: Results) -> np.ndarray:
    """Return the accuracy [P, S] in per cent at the end of the clients that hold data: of all but the relays."""
    network = run.config["network"]
    with_data = network["num_clients"] - network.get("relays", 0)
    return 100 * Results.load(made).accuracy.values[:, :, -1, :with_data].mean(axis=-1)


def parsed(text: str) -> dict[str, str]:
    """Return the settings of a text PATH=VALUE,PATH=VALUE."""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(path and equals for path, equals, _ in pairs):
        raise UserError(f"--beside_point={text}: it must be PATH=VALUE,PATH=VALUE")
    return {path: value for path, _, value in pairs}


def beside(made: Path, run: Results, matrix: Matrix, other: Path, fixed: Mapping[str, str]) -> dict[str, Any]:
    """Return each rival's difference to a point of another study, paired by seed, over all settings.

    Args:
      made, run, matrix: the study and its rivals.
      other: the workdir of the other study.
      fixed: values of its settings. Its settings that this study has too are those of each row of the matrix.

    Raises:
      UserError: if the other study lacks such a point or has other seeds.
    """
    there = Results.read(other).shown()
    if list(run.manifest["seeds"]) != list(there.manifest["seeds"]):
        raise UserError(f"--beside={other}: it has other seeds")
    ours, theirs = accuracy_with_data(made, run), accuracy_with_data(other, there)
    points = [{path: str(value) for path, value in point["overrides"].items()} for point in there.outcomes]

    def found(row: Sequence[int]) -> int:
        overrides = run.outcomes[row[0]]["overrides"]
        own = {path: str(value) for path, value in overrides.items() if path != matrix.axis.path}
        wanted = {path: value for path, value in own.items() if path in points[0]} | dict(fixed)
        if wanted not in points:
            raise UserError(f"--beside={other}: it has no point {wanted}")
        return points.index(wanted)

    base = theirs[[found(row) for row in matrix.point]]  # [R, S]
    rows = [{"rival": rival, "difference": over_all(ours[matrix.point[:, c]] - base)}
            for c, rival in enumerate(matrix.rivals)]  # fmt: skip
    return {"study": there.config["name"], "point": dict(fixed), "rows": rows}
