"""The formats of files in a data directory. A file of this folder registers a `Format` in `FORMATS`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mdfl_jax.core.registry import Registry


class TableColumns(NamedTuple):
    """Which columns of a table are what; "": by their names.

    Attributes:
      target: the target.
      owner: the natural owners.
      drop: those that are left out.
      categories: those whose values are names, whatever they look like: classes of the target, or one-hot features.
    """

    target: str = ""
    owner: str = ""
    drop: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


NO_COLUMNS = TableColumns()


def columns_of(target: str = "", owner: str = "", drop: str = "", categories: str = "") -> TableColumns:
    """Return the columns that the texts of the fields `data.target` to `data.categories` say.

    >>> columns_of("price", drop="id, name")
    TableColumns(target='price', owner='', drop=('id', 'name'), categories=())
    """
    split = lambda text: tuple(filter(None, map(str.strip, text.split(","))))  # noqa: E731
    return TableColumns(target, owner, split(drop), split(categories))


class Format(NamedTuple):
    """A format of the files of a data directory.

    Attributes:
      names: (data directory, names of its entries) -> the names of the data sets in this format.
      files: (data directory, name) -> the files of this data set, which may have been damaged or removed since.
      read: (files, beginning of an error message) -> the arrays, by the names that they have in an npz file.
      place: the place of the format among all. If a data directory has files of one name in several formats, those of
        the smallest place are read.
      is_table: whether ``read`` takes `TableColumns` too, and returns a line ``about`` what it has read.
    """

    names: Callable[[Path, list[str]], set[str]]
    files: Callable[[Path, str], list[Path]]
    read: Callable[..., dict[str, Any]]
    place: int
    is_table: bool = False


def of_ending(ending: str, read: Callable[..., dict[str, Any]], place: int, is_table: bool = False) -> Format:
    """Make the format of data sets that are each one file with this ending in the data directory."""
    return Format(
        lambda directory, entries: {entry.removesuffix(ending) for entry in entries if entry.endswith(ending)},
        lambda directory, name: [directory / f"{name}{ending}"],
        read,
        place,
        is_table,
    )


FORMATS: Registry[Format] = Registry("format of data files", home="mdfl_jax.data.formats", contrib="formats.data")


def formats_in_order() -> list[Format]:
    """Return the formats in the order in which they are tried."""
    return sorted((FORMATS[name] for name in FORMATS), key=lambda known: known.place)
