"""The partition ``table``: a file says who holds which samples, or how many of each label."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbering import natural, numbered, numbering
from mdfl_jax.core.numbers import Setting, number
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.data.files import arrays_in, number_rows, while_reading, whole
from mdfl_jax.data.partition import PARTITIONS, PartitionNumbers, PartitionSettings, deal_by_counts
from mdfl_jax.storage.given import read_text

LARGEST = 2**24  # numbers are single precision, which has all whole numbers up to this one


def read_table(path: str, notes: list[str] | None = None) -> np.ndarray:
    """Read a table of owners or of counts, or the lists of the samples of each client.

    Clients are numbered in ascending order if there is no client 0. Else a missing number is a client without samples.

    Args:
      path: a table with one column, ``owner``, or with one row per client and one column per label. Or an npz file with
        one of the arrays ``owner`` [n] and ``counts`` [N, C]. Or, in JSON, the lists of the indices of each client's
        training samples, as FedLab saves them: a list, or a dictionary.
      notes: gets a line that says how the clients were numbered, if they are not numbered in the file.

    Returns:
      [n] int32 the client of each training sample, -1 for none; or [N, C] int32 the number of samples of each client
      and label. Lists of indices are owners up to the largest index.

    Raises:
      UserError: if the file cannot be read or holds something else.
    """
    where = f"data.table: file {path!r}"
    if not path:
        raise UserError("data.table is ''; data.partition table needs a CSV or npz file")
    known: Sequence[Any] | np.ndarray = ()
    with while_reading(where):
        lists = lists_in(path)
        if lists is not None:
            known = sorted(lists, key=natural)
            found = _of_lists(lists, known, where)
        elif path.endswith(".npz"):
            found = _of_arrays(arrays_in(path), where)
        else:
            found = np.array([row for _, row in number_rows(path, whole)], np.int64)
            found = found[:, 0] if found.shape[1] == 1 else found
    if found.dtype.kind not in "iu" or found.ndim not in (1, 2) or found.size == 0:
        _refuse(where, f"it holds {found.dtype} {list(found.shape)}")
    low, high = int(found.min()), int(found.max())
    if low < (-1 if found.ndim == 1 else 0) or high >= LARGEST:
        _refuse(where, f"it holds numbers from {low} to {high}")
    if found.ndim == 1 and lists is None:
        owners, owner = numbered(found)
        known = owners[owners != -1]
        found = found if 0 in known else owner - (len(owners) - len(known))
    if len(known) and 0 not in known and notes is not None:
        notes.append(numbering("clients", known))
    return found.astype(np.int32)


def lists_in(path: str) -> dict[Any, Sequence[int]] | None:
    """Return the indices of the training samples of each client, by its name; None for a file that is not in JSON.

    Raises:
      UserError: if the file cannot be read, holds something else, or two lists are of one client.
    """
    if not path.endswith(".json"):
        return None
    content = json.loads(read_text(path))
    if isinstance(content, list):
        content = dict(enumerate(content))
    if not isinstance(content, Mapping) or not content or not all(map(_are_indices, content.values())):
        raise UserError("it holds no list of the indices from 0 of each client")
    return _by_client([(str(name), of) for name, of in content.items()])


def _by_client(lists: Sequence[tuple[str, Sequence[int]]]) -> dict[Any, Sequence[int]]:
    are_numbers = all(name.isdecimal() for name, _ in lists)
    found = {int(name) if are_numbers else name: of for name, of in lists}
    if len(found) < len(lists):
        raise UserError("two of its lists have the number of one client; allowed: one list for each client")
    return found


def _are_indices(of: Any) -> bool:
    return isinstance(of, list) and all(type(index) is int and index >= 0 for index in of)


def _of_lists(lists: Mapping[Any, Sequence[int]], names: Sequence[Any], where: str) -> np.ndarray:
    """Return the client of each sample up to the largest index, -1 for none.

    The names are those of the clients in ascending order. With a client 0 they are the numbers of the clients, of which
    some may have no list; else their order numbers the clients.

    Raises:
      UserError: if nobody has a sample, or two clients have one.
    """
    held = [np.asarray(lists[name], np.int64) for name in names]
    index = np.concatenate(held)
    if not len(index):
        raise UserError(f"{where}: it gives no client a sample")
    if index.max() >= LARGEST:
        raise UserError(f"{where}: it holds the index {index.max()}; allowed: indices of training samples, from 0")
    place = np.repeat(np.arange(len(held)), list(map(len, held)))
    found = np.full(index.max() + 1, -1)
    found[index] = place
    if (twice := found[index] != place).any():
        k = int(np.argmax(twice))
        both = f"{names[place[k]]} and {names[found[index[k]]]}"
        raise UserError(f"{where}: clients {both} both have the sample {index[k]}; allowed: one client for each sample")
    return np.append(names, -1)[found] if 0 in lists else found


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


class TableNumbers(PartitionNumbers):
    """The numbers of the partition ``table``."""

    table: str = number(
        "",
        "CSV, npz or JSON: owner of each sample, indices by client, or counts by client and label",
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
        table, where = read_table(self.table), f"data.table: file {self.table!r}"
        if table.ndim == 1:
            is_short = lists_in(self.table) is not None and len(table) <= len(dataset.y_train)
            if len(table) != len(dataset.y_train) and not is_short:
                raise UserError(
                    f"{where} has {len(table)} owners; {dataset.name} has {len(dataset.y_train)} training samples"
                )
            return
        known = dataset.num_strata
        if table.shape[1] != known:
            raise UserError(f"{where} has counts of {table.shape[1]} labels; {dataset.name} has {known} classes")
        asked, there = table.sum(axis=0), np.bincount(dataset.strata, minlength=known)
        if (asked > there).any():
            label = int(np.argmax(asked > there))
            raise UserError(
                f"{where} gives out {asked[label]} samples of label {label}; {dataset.name} has {there[label]}"
            )


@PARTITIONS.register("table", TableNumbers, formula="the owners, or the counts [N, C], of the file")
def by_table(key: jax.Array, labels: jax.Array, settings: PartitionSettings) -> jax.Array:
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
