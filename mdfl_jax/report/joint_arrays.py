"""The arrays of several studies as if they were those of one."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from mdfl_jax.report.read import ROUNDS, Run


class JointArrays(Mapping[str, np.ndarray]):
    """The arrays of several studies by name, 'P/KEY' with the index P of the sweep point among all of them.

    An array of a whole study, such as its streets, is there if the studies that have it agree; 'rounds' only if all
    studies have the same.
    """

    def __init__(self, runs: Sequence[Run], parts: Sequence[tuple[int, int]]):
        self._of = {str(p): (runs[i].arrays, runs[i].places[q]) for p, (i, q) in enumerate(parts)}
        self._whole = dict[str, np.ndarray]()
        for name in dict.fromkeys(name for run in runs for name in run.arrays if "/" not in name):
            found = [run.arrays[name] for run in runs if name in run.arrays]
            complete = len(found) == len(runs) or name != ROUNDS
            if complete and all(np.array_equal(array, found[0]) for array in found):
                self._whole[name] = found[0]

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._whole:
            return self._whole[name]
        p, _, key = name.partition("/")
        if p not in self._of:
            raise KeyError(name)
        arrays, place = self._of[p]
        return arrays[f"{place}/{key}"]

    def __contains__(self, name: object) -> bool:
        p, _, key = str(name).partition("/")
        if p not in self._of:
            return name in self._whole
        arrays, place = self._of[p]
        return f"{place}/{key}" in arrays

    def __iter__(self) -> Iterator[str]:
        yield from self._whole
        for p, (arrays, place) in self._of.items():
            yield from (f"{p}/{name.partition('/')[2]}" for name in arrays if name.startswith(f"{place}/"))

    def __len__(self) -> int:
        return sum(1 for _ in self)
