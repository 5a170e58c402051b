"""The models that a study has kept (its field `save`), as trees of arrays."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage.model_files import CLIENTS, FOLDER, GLOBAL, files_of, mean_of, nested, read, read_header

if TYPE_CHECKING:
    from mdfl_jax.results.results import Results


class KeptModels:
    """The methods of `Results` that read kept models."""

    def models(self: Any, point: int | str = 0, seed: int | None = None, round: int | None = None) -> dict[str, Any]:
        """Returns the models of the clients that a run has kept.

        Args:
          point: the index or the id of the sweep point.
          seed: the seed, one of ``results.seeds_of(point)``; None: the first one.
          round: the round of the models; None: the last one that is kept.

        Returns:
          {"params": ...}, and "batch_stats" if the model has batch statistics, as flax takes them. Each leaf is
          [N, ...], with a leading axis of clients. Lists of a tree are dictionaries with the keys "0", "1", ...

        Raises:
          UserError: if the study has kept no such models; the message says which there are.
        """
        return nested(read(file_of(self, point, seed, round)), CLIENTS)

    def model(self: Any, point: int | str = 0, seed: int | None = None, round: int | None = None) -> dict[str, Any]:
        """Returns one model that represents a run: the algorithm's global model, or the mean of the clients' models.

        Args:
          point, seed, round: as in `models`.

        Returns:
          A tree as `models` returns it, without the axis of clients.

        Raises:
          UserError: as `models`.
        """
        tensors = read(file_of(self, point, seed, round))
        return nested(tensors, GLOBAL) or nested(mean_of(tensors), CLIENTS)


def file_of(results: "Results", point: int | str, seed: int | None, at_round: int | None) -> Path:
    """Returns the file of a run's models.

    Args:
      results: the results.
      point: the index or the id of the sweep point.
      seed: the seed; None: the first one.
      at_round: the round of the models; None: the last one that is kept.

    Raises:
      UserError: if the study has kept no such models; the message says which there are.
    """
    index, seed = results.index_of(point), results.seeds_of(point)[0] if seed is None else seed
    if seed not in results.seeds_of(point):
        raise UserError(f"the seed is {seed!r}; the study has {_listed(results.seeds_of(point))}")
    save = results.config.get("save") or ""
    if not save:
        raise UserError("the study has kept no models: its field save is ''; with save=final it keeps the last ones")
    if results.workdir is None:
        raise UserError("the study has no workdir, and its models are in files; run it with a workdir")
    files = files_of(results.workdir / FOLDER / str(index), seed)
    if not files:
        raise UserError(f"{results.workdir}: the file of the models of {results.points[index]!r}, seed {seed}, is gone")
    of_rounds = {read_header(path)[0].round if name is None else name: path for name, path in files.items()}
    if at_round is not None and at_round not in of_rounds:
        raise UserError(f"the round is {at_round!r}; with save={save} those of round {_listed(of_rounds)} are kept")
    return of_rounds[max(of_rounds) if at_round is None else at_round]


def _listed(numbers: Iterable[int]) -> str:
    """Lists numbers in order, at most ten of them.

    >>> _listed([0, 2, 1])
    '0, 1, 2'
    """
    shown = sorted(numbers)
    return ", ".join(map(str, shown if len(shown) <= 10 else [*shown[:5], "...", *shown[-4:]]))
