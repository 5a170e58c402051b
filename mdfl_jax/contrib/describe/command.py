"""Describes a trace, a contact list or a data set: mdfl data FILE

A data set is a file or folder of docs/data.md. A table is one unless its header names columns of a trace, or if one of
the flags --target=COLUMN, --owner=COLUMN, --drop=COLUMNS, --categories=COLUMNS and --layout=AXES says how it is read;
they are the fields data.target to data.layout of a study. Graphs and partitions of other tools are described too.

--get=cifar10 (or cifar100, mnist, fashion_mnist) fetches a data set once, into MDFL_DATA_DIR, and describes it.

With --config=FILE, and perhaps --config.KEY=VALUE, it shows instead, without training, the data
that the clients of a study will hold: the counts of the labels, and numbers that say how unequal they are.

--format=NAME  a format of docs/movement.md, such as sumo, csv_geo or gpx; by default that of its ending or its header
--columns=NAMES  the columns of a table without a header, such as id,time,lon,lat
--types=CAR,BUS, --times=BEGIN,END, --area=WEST,SOUTH,EAST,NORTH  the part of the file that is used
--gaps=RULE    nodes that are not seen stand still (hold) or are gone (absent); auto: as the format means it
--hold=SECONDS  how long a contact of a list time,i,j holds; 0 takes the shortest step of its times
--radius=R     distance in metres within which two clients are in contact
--dt=SECONDS   length of a round; 0 takes the spacing of the samples
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from absl import flags

from mdfl_jax.cli import common
from mdfl_jax.contrib.describe.traces import describe_trace
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.tables import COMMENT
from mdfl_jax.storage.given import decoded_start
from mdfl_jax.traces import TRACE_FORMATS, detect, load, part_of
from mdfl_jax.traces.formats.tables import has_contacts, header_in, role_of
from mdfl_jax.traces.reading import opened

_TRACE = flags.DEFINE_string("trace", None, "Trace file, plain or .gz.")
_FORMAT = flags.DEFINE_string("format", "auto", "Its format; auto goes by the file's ending or header.")
_COLUMNS = flags.DEFINE_string("columns", "", "Names of a table's columns in their order, such as id,time,lon,lat.")
_TYPES = flags.DEFINE_string("types", "", "Only nodes of these types, such as car,bus.")
_TIMES = flags.DEFINE_string("times", "", "Only begin,end: seconds of the file, or dates with a time.")
_AREA = flags.DEFINE_string("area", "", "Only west,south,east,north, in the unit of the file.")
_GAPS = flags.DEFINE_string("gaps", "auto", "Nodes that are not seen stand still (hold) or are gone (absent).")
_HOLD = flags.DEFINE_float("hold", 0.0, "Seconds that a contact of a list time,i,j holds.", lower_bound=0.0)
_RADIUS = flags.DEFINE_float("radius", 100.0, "Metres within which two are in contact.", lower_bound=0.0)
_DT = flags.DEFINE_float("dt", 0.0, "Seconds a round; 0 takes the spacing of the samples.", lower_bound=0.0)
_OF_SAMPLES = {
    name: flags.DEFINE_string(name, None, f"Field data.{name} of a data set.")
    for name in ("target", "owner", "drop", "categories", "layout")
}
_OF_TRACES = (_FORMAT, _COLUMNS, _TYPES, _TIMES, _AREA, _RADIUS, _DT, _GAPS, _HOLD)
_GET = flags.DEFINE_string("get", None, "Fetch a well-known data set once, such as cifar10.")
_EDGE = re.compile(r"\d+[,;\s]+\d+([,;\s]+(0?\.\d+|1\.0*|\d(\.\d+)?e-\d+|\{.*\}))?")  # a line of an edge list
common.study_flags()
WORDS, DOES = ("trace",), "reading the data"


def main() -> int:
    """Print one line for each fact about a trace, or the data that the clients of a study will hold."""
    if _GET.value is not None:
        return _get(_GET.value)
    if common.flag_value("config") is not None:
        if _TRACE.value:
            raise UserError(f"--trace={_TRACE.value} and --config are both given; one of them says what is described")
        for flag in (*_OF_TRACES, *_OF_SAMPLES.values()):
            if flag.present:
                raise UserError(f"--{flag.name}={flag.value} is for a file; with --config it is --config.SECTION.KEY")
        return _show_clients()
    if fields := common.fields_given():
        raise UserError(f"--config.{next(iter(fields))} needs --config=FILE, the study whose field it is")
    if not _TRACE.value:
        raise UserError("what to describe is missing: mdfl data FILE, or mdfl data --config=digits for a study's data")
    path = Path(_TRACE.value)
    if not path.exists():
        raise UserError(f"{_TRACE.value!r}: there is no such file or folder")
    if path.is_file() and not path.stat().st_size:
        raise UserError(f"{_TRACE.value!r}: the file is empty")
    fields = {name: flag.value for name, flag in _OF_SAMPLES.items() if flag.value is not None}
    is_open = not fields and _FORMAT.value == "auto" and not _COLUMNS.value
    try:
        lines = _samples(path, fields) if fields or (is_open and _may_be_samples(path)) else []
        if is_open and not lines:
            lines = _graph(path) if _is_graph(path) else []
            if not lines:
                _check_format(path)
    except UserError:
        lines = _partition(path) if is_open else []
        if not lines:
            raise
    what, others = ("trace", _OF_TRACES) if lines else ("data set", _OF_SAMPLES.values())
    for flag in others:
        if flag.present:
            raise UserError(f"--{flag.name}={flag.value} is for a {what}, and {_TRACE.value} is none")
    if not lines:
        part = part_of(_TYPES.value, _TIMES.value, _AREA.value)
        loaded = load(_TRACE.value, _FORMAT.value, _COLUMNS.value, part, _HOLD.value)
        lines = [("trace", _TRACE.value), *describe_trace(loaded, _RADIUS.value, _DT.value, _GAPS.value)]
    _print(lines)
    return 0


def _check_format(path: Path) -> None:
    """Check that a path that is no data set and no graph has a format of traces.

    Raises:
      UserError: if it has none; the message says what was tried.
    """
    try:
        detect(path)
    except UserError as error:
        raise UserError(f"{error}; it is no data set, graph or partition either") from None


def _get(name: str) -> int:
    """Fetch a well-known data set into the data directory, unless it is there, and describe it."""
    from mdfl_jax.data import sources
    from mdfl_jax.data.dataset import facts

    if name not in sources.WELL_KNOWN:
        raise UserError(unknown_name("data set of --get", name, tuple(sources.WELL_KNOWN)))
    _print([("data set", name), *facts(sources.load(name))])
    return 0


def _print(lines: list[tuple[str, str]]) -> None:
    """Print one line for each fact."""
    width = max(len(what) for what, _ in lines)
    for what, value in lines:
        print(f"{what:{width}}  {value}")


def _may_be_samples(path: Path) -> bool:
    """Tell whether a path may be a data set: a table may, unless it has no header or one of a trace or of contacts."""
    if path.suffix != ".csv" or not path.is_file():
        return path.is_dir() or path.suffix == ".npz"
    with opened(path) as stream:
        header = header_in(decoded_start(stream.read(2**16)))
    return bool(header) and len({*map(role_of, header)} - {""}) < 3 and not has_contacts(header)


def _samples(path: Path, fields: Mapping[str, str]) -> list[tuple[str, str]]:
    """Describe a data set, read as fields of the section data say, in words; nothing for a path that is none."""
    from mdfl_jax.data import sources  # imports JAX, which traces do without
    from mdfl_jax.data.dataset import LAYOUTS, facts
    from mdfl_jax.data.formats import columns_of

    layout = fields.get("layout", LAYOUTS[0])
    if layout not in LAYOUTS:
        raise UserError(unknown_name("layout", layout, LAYOUTS))
    whole = path if path.name not in ("", os.pardir) else Path(os.path.abspath(path))
    if not (name := sources.name_of_data(whole)):
        return []
    columns = columns_of(**{key: value for key, value in fields.items() if key != "layout"})
    return [("data set", str(path)), *facts(sources.load(name, str(whole.parent), columns=columns, layout=layout))]


def _is_graph(path: Path) -> bool:
    """Tell whether a file is a graph: by its ending, or its lines are i,j or i,j,w, which are no lines of a trace."""
    plain = path.name.lower().removesuffix(".gz")
    if not path.is_file() or any(plain.endswith(TRACE_FORMATS[name].endings) for name in TRACE_FORMATS):
        return False
    with opened(path) as stream:
        text = decoded_start(stream.read(2**16))
    if path.suffix == ".json":
        return '"nodes"' in text
    if header_in(text):
        return False
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(COMMENT)]
    if lines and _EDGE.fullmatch(lines[:2][-1]):  # the first line may be the number of clients
        return True
    from mdfl_jax.networks.fixed import GRAPH_FILES  # imports JAX, which traces do without

    return path.suffix in (".mtx", *GRAPH_FILES)


def _graph(path: Path) -> list[tuple[str, str]]:
    """Describe a graph in words."""
    from mdfl_jax.networks.fixed import read_matrices

    notes = list[str]()
    (matrix,) = read_matrices(path, directed=None, allow_disconnected=True, notes=notes)
    clients = len(matrix)
    heard = (matrix != 0) & ~np.eye(clients, dtype=bool)
    degree, one_way = heard.sum(axis=1), heard != heard.T
    links = f"{degree.sum() // 2:,} in both directions"
    if one_way.any():
        links = f"{degree.sum():,}, of which {one_way.sum() // 2:,} have one direction: graph.directed=True in a study"
    weights = "no weights, so network.mixing gives them" if matrix.dtype == bool else "the weights of the links"
    return [
        ("graph", str(path)),
        (
            "read as",
            "; ".join([f"a graph with {weights}", *notes, "network.graph=file and graph.file name it in a study"]),
        ),
        ("clients", f"{clients:,}"),
        ("links", links),
        ("degree", f"mean {degree.mean():.2f}, from {degree.min()} to {degree.max()}"),
    ]


def _partition(path: Path) -> list[tuple[str, str]]:
    """Describe a partition in words; nothing for a file that is none. Rows of counts as text may be anything else."""
    from mdfl_jax.contrib.partitions.table import read_table  # imports JAX, which traces do without

    notes = list[str]()
    try:
        table = read_table(str(path), notes)
    except UserError:
        return []
    if table.ndim == 2 and path.suffix not in (".json", ".npz"):
        return []
    held = table.sum(axis=1) if table.ndim == 2 else np.bincount(table[table >= 0])
    labels = f", of {table.shape[1]:,} labels" if table.ndim == 2 else ""
    named = "data.partition=table and data.table name it in a study"
    return [
        ("partition", str(path)),
        ("read as", "; ".join([*notes, named])),
        ("clients", f"{len(held):,}"),
        ("samples", f"{held.sum():,}{labels}; a client holds from {held.min():,} to {held.max():,}"),
    ]


def _show_clients() -> int:
    """Print the clients' data of a study, once for each group of sweep points that draw the same."""
    from mdfl_jax.contrib.describe import partitions
    from mdfl_jax.study import make_study

    common.setup_jax("")
    study = make_study(common.config_of_flags())
    print("\n\n".join(partitions.describe_data(study, data) for data in partitions.draw(study)))
    return 0
