"""Reading of graphs and mixing matrices from files. They are checked on the host before anything runs."""

import zipfile
from pathlib import Path

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.networks.fixed import check_matrices
from mdfl_jax.storage.limits import check_npz


def read_matrices(
    path: str | Path, num_clients: int, directed: bool = False, allow_disconnected: bool = False
) -> np.ndarray:
    """Read the graphs or the mixing matrices of a file.

    Args:
      path: the file. It is one of: an edge list with lines ``i,j`` (clients are counted from 0; lines that begin with #
        and a header of words are skipped); an N x N matrix as text, with numbers separated by commas; one array [N, N]
        or [T, N, N] in .npy or .npz. An array of zeros and ones only is read as links. Any other array is read as
        weights, whose rows must sum to one.
      num_clients: N.
      directed: if true, a line i,j or an entry [i, j] says only that i hears j. If false, a line of an edge list stands
        for both directions, and a matrix must hold both.
      allow_disconnected: if true, the graph need not be connected. The links of all T graphs together count.

    Returns:
      [T, N, N] bool for links or float for weights, as `mdfl_jax.networks.fixed.given` takes them.

    Raises:
      UserError: with the file's name and what is wrong with it.
    """
    try:
        is_array = Path(path).suffix in (".npy", ".npz")
        table = _of_array(_array(path)) if is_array else _of_text(_text(path), num_clients, directed)
        if table.shape[1:] != (num_clients, num_clients) and table.ndim == 3 and table.shape[1] == table.shape[2]:
            raise UserError(f"a graph of {table.shape[1]} clients; network.num_clients is {num_clients}")
        check_matrices(table)
        _check_links((table != 0) & ~np.eye(num_clients, dtype=bool), directed, allow_disconnected)
    except UserError as error:
        raise UserError(f"{str(path)!r}: {error}") from None
    return table


def _check_links(heard: np.ndarray, directed: bool, allow_disconnected: bool) -> None:
    one_way = np.argwhere(heard & ~heard.swapaxes(1, 2))
    if len(one_way) and not directed:
        _, i, j = one_way[0]
        raise UserError(f"client {i} hears {j} and not the other way round; graph.directed takes that as it is")
    from scipy.sparse import csr_array  # imported here, since few studies read a graph
    from scipy.sparse.csgraph import connected_components

    parts, part = connected_components(csr_array(heard.any(axis=0)), connection="strong")
    if parts > 1 and not allow_disconnected:
        smallest = np.argmin(np.bincount(part))
        alone = ", ".join(map(str, np.flatnonzero(part == smallest)[:5]))
        raise UserError(
            f"the graph is not connected: {parts} parts, one of them around client {alone}; graph.allow_disconnected "
            "takes it as it is"
        )


def _array(path: str | Path) -> np.ndarray:
    try:
        if zipfile.is_zipfile(path):
            check_npz(path)
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            if len(loaded.files) != 1:
                held = ", ".join(sorted(loaded.files)) or "none"
                raise UserError(f"it must hold one array, and holds {len(loaded.files)} ({held})")
            return loaded[loaded.files[0]]
    except FileNotFoundError:
        raise UserError("there is no such file") from None
    except UserError:
        raise
    except Exception as error:  # whatever the readers make of damaged bytes
        raise UserError(f"it cannot be read ({' '.join(str(error).split())[:80]})") from None


def _of_array(array: np.ndarray) -> np.ndarray:
    """Return an array as [T, N, N]: bool if it holds zeros and ones only, else float."""
    if array.dtype.kind not in "biuf":
        raise UserError(f"an array of {array.dtype}; it must hold booleans or numbers")
    table = array[None] if array.ndim == 2 else array
    return table.astype(bool) if np.isin(table, (0, 1)).all() else table.astype(np.float64)


def _text(path: str | Path) -> list[tuple[int, list[float]]]:
    """Read the rows of a text with their line numbers, without blank lines, comments (#) and the header."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise UserError("there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"it cannot be read ({' '.join(str(error).split())})") from None
    kept = [(k, line.strip()) for k, line in enumerate(lines, 1) if line.strip() and not line.strip().startswith("#")]
    if kept and all(name.strip().isidentifier() for name in kept[0][1].split(",")):
        kept = kept[1:]
    rows = []
    for k, line in kept:
        try:
            rows.append((k, [float(field) for field in line.split(",")]))
        except ValueError:
            raise UserError(f"line {k}: {line[:40]!r} is not of numbers and commas") from None
        if len(rows[-1][1]) != len(rows[0][1]):
            raise UserError(f"line {k}: {len(rows[-1][1])} columns where the first line has {len(rows[0][1])}")
    if not rows:
        raise UserError("it holds no line of numbers")
    return rows


def _of_text(rows: list[tuple[int, list[float]]], num_clients: int, directed: bool) -> np.ndarray:
    columns = len(rows[0][1])
    # The matrix of two linked clients, with the rows 0,1 and 1,0, also has two columns. Read as edges, it is the same.
    if columns != 2:
        if columns != len(rows):
            raise UserError(f"{len(rows)} rows of {columns} columns; a matrix must be square, an edge list i,j")
        return _of_array(np.array([row for _, row in rows]))
    links = np.zeros((1, num_clients, num_clients), bool)
    for k, (i, j) in rows:
        for client in (i, j):
            if client not in range(num_clients):
                known = f"clients are 0 to {num_clients - 1}, by network.num_clients"
                raise UserError(f"line {k}: client {client:g} is unknown; {known}")
        links[0, int(i), int(j)] = True
        links[0, int(j), int(i)] |= not directed
    return links
