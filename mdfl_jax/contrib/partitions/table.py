"""The partition ``table``: a file says who holds which samples, or how many of each label."""

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbering import natural, numbered_clients, numbering
from mdfl_jax.core.numbers import Setting, number
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.data.files import arrays_in, number_rows, while_reading, whole
from mdfl_jax.data.partition import PARTITIONS, PartitionNumbers, PartitionSettings, deal_by_counts
from mdfl_jax.storage.given import read_text

HELD = "Size of samples for labels in clients"  # the entry of PFLlib's config.json
_LARGEST = 2**24  # numbers are single precision, which has all whole numbers up to this one
_KINDS = "a column of owners, a row of counts or indices for each client, .npz, files of FedLab, FedML or PFLlib"
_NUMBERED = re.compile(r"[A-Za-z_]*?(\d+)")  # the array of a client in an npz file
_MAP = re.compile(r"""["']?(\w+)["']?\s*:\s*\[([\d\s,]*)\]""")  # a client of FedML's net_dataidx_map.txt


def read_table(path: str, notes: list[str] | None = None) -> np.ndarray:
    """Read a table of owners or of counts, or the lists of the samples of each client.

    Clients are numbered in ascending order if there is no client 0. Else a missing number is a client without samples.

    Args:
      path: a table with one column, ``owner``, or with one row per client and one column per label. Or an npz file with
        one of the arrays ``owner`` [n] and ``counts`` [N, C], or an array of indices of training samples for each
        client, by its number. Or such lists of indices in JSON, as FedLab saves them (a list or a dictionary), in
        FedML's net_dataidx_map.txt, or as rows of any length in which each number from 0 is once. Or the config.json of
        a partition of PFLlib, for the pairs [label, count] of each client.
      notes: gets a line that says how the clients were numbered, if they are not numbered in the file.

    Returns:
      [n] int32 the client of each training sample, -1 for none; or [N, C] int32 the number of samples of each client
      and label. Lists of indices are owners up to the largest index.

    Raises:
      UserError: if the file cannot be read or holds something else.
    """
    return _read(path, [] if notes is None else notes)[0]


def _read(path: str, notes: list[str]) -> tuple[np.ndarray, str]:
    """Return the table as `read_table` does, and what the file holds: "table", "lists" or "rows" of indices."""
    where = f"data.table: file {path!r}"
    if not path:
        raise UserError("data.table is ''; data.partition table needs a CSV or npz file")
    with while_reading(where):
        arrays = arrays_in(path) if path.endswith(".npz") else None
        text = read_text(path, any_encoding=True) if arrays is None else ""
        is_json = text.lstrip()[:1] in ("{", "[") and arrays is None
        lists = _of_clients(arrays) if arrays is not None else _of_brackets(text) if is_json else _of_rows(text)
        form = "table" if lists is None else "lists" if is_json or arrays is not None else "rows"
        if lists is not None:
            found = _of_lists(lists, where, notes)
        elif arrays is not None:
            found = _of_arrays(arrays, where)
        elif path.endswith(".json"):
            found = _of_json(text, where)
        else:
            found = np.array([row for _, row in number_rows(text, whole, _KINDS)], np.int64)
            found = found[:, 0] if found.shape[1] == 1 else found
    if found.dtype.kind not in "iu" or found.ndim not in (1, 2) or found.size == 0:
        _refuse(where, f"it holds {found.dtype} {list(found.shape)}")
    low, high = int(found.min()), int(found.max())
    if low < (-1 if found.ndim == 1 else 0) or high >= _LARGEST:
        _refuse(where, f"it holds numbers from {low} to {high}")
    if found.ndim == 1 and lists is None:
        found, _ = numbered_clients(found, notes)
    return found.astype(np.int32), form


def _of_clients(arrays: Mapping[str, np.ndarray]) -> dict[Any, Sequence[int]] | None:
    """Return the arrays of an npz file by the numbers of clients in their names; None if not all names have one."""
    named = {_NUMBERED.fullmatch(name): of for name, of in arrays.items()}
    return _by_client([(name[1], of.tolist()) for name, of in named.items() if name]) if all(named) else None


def _of_brackets(text: str) -> dict[Any, Sequence[int]] | None:
    """Return the indices of the training samples of each client, by its name; None for JSON that has no such lists."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = {name: list(map(int, of.split(","))) if of.strip() else [] for name, of in _MAP.findall(text)}
    if isinstance(content, list):
        content = dict(enumerate(content))
    if not isinstance(content, Mapping) or not content or not all(map(_are_indices, content.values())):
        return None
    return _by_client([(str(name), of) for name, of in content.items()])


def _of_rows(text: str) -> dict[Any, Sequence[int]] | None:
    """Return the indices in the row of each client; None unless each number from 0 is in one place of the rows."""
    try:
        rows = [list(map(int, re.split(r"[,;\s]+", line.strip()))) for line in text.rstrip().splitlines()]
    except ValueError:
        return None
    found = sorted(itertools.chain.from_iterable(rows))
    return dict(enumerate(rows)) if 1 < len(rows) < len(found) and found == list(range(len(found))) else None


def _by_client(lists: Sequence[tuple[str, Sequence[int]]]) -> dict[Any, Sequence[int]]:
    are_numbers = all(name.isdecimal() for name, _ in lists)
    found = {int(name) if are_numbers else name: of for name, of in lists}
    if len(found) < len(lists):
        raise UserError("two of its lists have the number of one client; allowed: one list for each client")
    return found


def _are_indices(of: Any) -> bool:
    return isinstance(of, list) and all(type(index) is int and index >= 0 for index in of)


def _of_lists(lists: Mapping[Any, Sequence[int]], where: str, notes: list[str]) -> np.ndarray:
    """Return the client of each sample up to the largest index, -1 for none.

    Names that are numbers number the clients as `numbered_clients` does; others do in their order.

    Raises:
      UserError: for an index that is not a whole number from 0, or that two clients have.
    """
    names = sorted(lists, key=natural)
    held = [np.asarray(lists[name]) for name in names]
    index = np.concatenate([of.astype(np.int64) for of in held]) if held else np.zeros(0, np.int64)
    if not len(index) or any(of.dtype.kind not in "iu" and of.size for of in held) or index.min() < 0:
        raise UserError(f"{where}: it holds no lists of indices from 0")
    if index.max() >= _LARGEST:
        raise UserError(f"{where}: it holds the index {index.max()}; allowed: indices of training samples, from 0")
    place = np.repeat(np.arange(len(held)), list(map(len, held)))
    found = np.full(index.max() + 1, -1)
    found[index] = place
    if (twice := found[index] != place).any():
        k = int(np.argmax(twice))
        both = f"{names[place[k]]} and {names[found[index[k]]]}"
        raise UserError(f"{where}: clients {both} both have the sample {index[k]}; allowed: one client for each sample")
    if all(isinstance(name, int) for name in names):
        return np.append(numbered_clients(names, notes)[0], -1)[found]
    notes.append(numbering("clients", names))
    return found


def _refuse(where: str, found: str) -> NoReturn:
    allowed = "whole numbers, the owner of each sample (-1: nobody), or the counts of each client (row) and label"
    raise UserError(f"{where}: {found}; allowed: {allowed}")


def _of_arrays(arrays: dict[str, np.ndarray], where: str) -> np.ndarray:
    keys = [key for key in ("owner", "counts") if key in arrays]
    if len(keys) != 1:
        names = ", ".join(sorted(arrays)[:10]) or "none"
        raise UserError(f"{where} has the keys {names}; allowed: one of owner [n] and counts [N, C]")
    found = arrays[keys[0]]
    if found.ndim != 1 + (keys[0] == "counts"):
        _refuse(where, f"{keys[0]} is {list(found.shape)}")
    return found


def _of_json(text: str, where: str) -> np.ndarray:
    """Return the counts [N, C] of a partition that PFLlib has written (Zhang and others, 2023)."""
    try:
        content = json.loads(text)
        clients = [{int(label): int(count) for label, count in client} for client in content[HELD]]
        counts = np.zeros((len(clients), 1 + max(max(client) for client in clients if client)), np.int64)
    except (KeyError, TypeError, ValueError, RecursionError):
        raise UserError(
            f"{where} is no partition of PFLlib: it has no pairs [label, count] as {HELD!r}, nor a list of the indices "
            "of each client"
        ) from None
    for row, client in zip(counts, clients):
        if client and min(client) < 0:
            _refuse(where, f"it holds the label {min(client)}")
        row[list(client)] = list(client.values())
    return counts


class PartitionTableNumbers(PartitionNumbers):
    """The numbers of the partition ``table``."""

    table: str = number(
        "",
        "CSV, npz or JSON (FedLab, FedML, PFLlib): owner of each sample, indices by client, or counts by client and "
        "label",
        read=read_table,
    )

    def notes(self, setting: Setting) -> list[str]:
        """Say how the clients of the file were numbered, if it has no client 0."""
        said = list[str]()
        read_table(self.table, said)
        return [f"data.table {self.table!r}: {line}" for line in said]

    def check(self, setting: Setting) -> None:
        """Check that the file has the clients 0..N-1, and a row for each if it holds counts."""
        table = read_table(self.table)
        if (table.max() if table.ndim == 1 else table.sum() - 1) < 0:
            raise UserError(f"data.table: file {self.table!r} gives no client a sample")
        if table.ndim == 1 and table.max() >= setting.num_clients:
            raise UserError(
                f"data.table: file {self.table!r} names the client {table.max()}; network.num_clients is "
                f"{setting.num_clients}, so the last client is {setting.num_clients - 1}"
            )
        if table.ndim == 2 and len(table) != setting.num_clients:
            raise UserError(
                f"data.table: file {self.table!r} has counts of {len(table)} clients; network.num_clients is "
                f"{setting.num_clients}"
            )

    def check_dataset(self, dataset: Dataset, num_clients: int) -> None:
        """Check that the file has an owner for each training sample, or counts that the data set has."""
        (table, form), where, samples = _read(self.table, []), f"data.table: file {self.table!r}", len(dataset.y_train)
        if table.ndim == 1:
            if len(table) != samples and not (form == "lists" and len(table) < samples):
                owners = "owners, by its rows of indices" if form == "rows" else "owners"
                raise UserError(f"{where} has {len(table)} {owners}; {dataset.name} has {samples} training samples")
            return
        known = dataset.num_strata
        if table.shape[1] != known:
            are_indices = len(np.unique(table)) == table.size > known
            hint = "; are they indices? a list of lists in JSON holds those of each client" if are_indices else ""
            raise UserError(f"{where} has counts of {table.shape[1]} labels; {dataset.name} has {known} classes{hint}")
        asked, there = table.sum(axis=0), np.bincount(dataset.strata, minlength=known)
        if (asked > there).any():
            label = int(np.argmax(asked > there))
            raise UserError(
                f"{where} gives out {asked[label]} samples of label {label}; {dataset.name} has {there[label]}"
            )


@PARTITIONS.register("table", PartitionTableNumbers, formula="the owners, or the counts [N, C], of the file")
def _by_table(key: jax.Array, labels: jax.Array, settings: PartitionSettings) -> jax.Array:
    """Give the samples to the clients as a file says: who holds which samples, or how many of each label.

    The key draws which samples of a label a client gets where the table holds counts; owners need no key. The numbers
    of the table are whole, whatever their type.

    Returns:
      owner: [n] int32 in -1..N-1. Where the counts do not use up a label, the rest of its samples have the owner -1.
    """
    table = jnp.asarray(settings.numbers.table).astype(jnp.int32)
    if table.ndim == 2:
        return deal_by_counts(key, labels, table)
    return jnp.pad(table, (0, labels.shape[0] - table.shape[0]), constant_values=-1)
