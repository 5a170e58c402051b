"""Reads a trace of any format. The format of a file is found by its name, or by its first lines."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.traces.reading import opened, wrong
from mdfl_jax.traces.sumo import read_sumo
from mdfl_jax.traces.tables import header_of, is_header, read_contacts, read_csv
from mdfl_jax.traces.types import Contacts, Trace
from mdfl_jax.traces.waypoints import read_bonnmotion, read_ns2

TRACE_FORMATS: dict[str, Callable[[str | Path], Trace]] = {
    "sumo": read_sumo,
    "sumo_geo": partial(read_sumo, geographic=True),
    "bonnmotion": read_bonnmotion,
    "ns2": read_ns2,
    "csv": read_csv,
    "csv_geo": partial(read_csv, geographic=True),
}
"""The readers of places by format name. A format that ends in ``_geo`` reads x and y as longitude and latitude."""

FORMATS = (*TRACE_FORMATS, "contacts")
"""The formats that `load` accepts, besides "auto"."""

_ENDINGS = {".xml": "sumo", ".movements": "bonnmotion", ".ns_movements": "ns2", ".tcl": "ns2"}
_HEAD = 1 << 16


def load(path: str | Path, format: str = "auto") -> Trace | Contacts:
    """Read a trace file, plain or gzip.

    Args:
      path: the file.
      format: a name of `FORMATS`, or "auto". "auto" decides by the ending of the file name (.xml, .movements,
        .ns_movements, .tcl, each also with .gz), and for other endings by the beginning of the content. Four columns
        without a header are ``time,id,x,y``.

    Returns:
      The places, or the contact list.

    Raises:
      UserError: for an unknown format, or a file that is not in this format; the readers say more.
    """
    if format not in ("auto", *FORMATS):
        raise UserError(unknown_name("trace format", format, ("auto", *FORMATS)))
    name = detect(path) if format == "auto" else format
    return read_contacts(path) if name == "contacts" else TRACE_FORMATS[name](path)


def load_trace(path: str | Path, format: str = "auto") -> Trace:
    """Read a file of places, as `load` does.

    Raises:
      UserError: as `load` does, and for a contact list.
    """
    loaded = load(path, format)
    if not isinstance(loaded, Trace):
        wrong(path, "it is a contact list, without places; the mobility 'contacts' takes it")
    return loaded


def load_contacts(path: str | Path) -> Contacts:
    """Read a contact list.

    Raises:
      UserError: for a file that is not a contact list, see `read_contacts`.
    """
    return read_contacts(path)


def detect(path: str | Path) -> str:
    """Find the format of a file, a name of `FORMATS`, by the ending of its name or by its content.

    Raises:
      UserError: for a file that cannot be read, or where neither the ending nor the content is known.
    """
    with opened(path) as stream:
        head = stream.read(_HEAD)
    ending = Path(str(path).removesuffix(".gz")).suffix.lower()
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    text = head.decode("utf-8-sig", errors="replace").lstrip()
    if text.startswith("<"):
        return "sumo"
    if "$node_(" in text or "$ns_ " in text:
        return "ns2"
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    first = lines[0] if lines else ""
    columns = first.split(",")
    if len(columns) > 1:
        contacts = {"i", "j"} <= set(header_of(columns)) if is_header(columns) else len(columns) == 3
        return "contacts" if contacts else "csv"
    if all(_is_number(word) for word in first.split()[:3]) and first:
        return "bonnmotion"
    wrong(path, f"its format is not known from its beginning {first[:40]!r}; known: {', '.join(FORMATS)}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
