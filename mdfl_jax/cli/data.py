"""Describes a trace, a contact list or a data set: mdfl data FILE, or python -m launch.data --trace=FILE

A data set is a file or folder of docs/data.md. A table is one unless its header names columns of a trace.

With --config=FILE, and perhaps --config.KEY=VALUE and --picture=FILE.png, it shows instead, without training, the data
that the clients of a study will hold: the counts of the labels, and numbers that say how unequal they are.

--format=NAME  a format of docs/movement.md, such as sumo, csv_geo or gpx; by default found from the file
--columns=NAMES  the columns of a table without a header, such as id,time,lon,lat
--types=CAR,BUS, --times=BEGIN,END, --area=WEST,SOUTH,EAST,NORTH  the part of the file that is used
--gaps=RULE    nodes that are not seen stand still (hold) or are gone (absent)
--radius=R     distance in metres within which two clients are in contact
--dt=SECONDS   length of a round; 0 takes the spacing of the samples
"""

import csv
from functools import partial
from pathlib import Path

from absl import flags

from mdfl_jax.cli import common
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.tables import marks_of
from mdfl_jax.traces import load, part_of
from mdfl_jax.traces.describe import describe
from mdfl_jax.traces.formats.tables import NAMES, header_of, is_header
from mdfl_jax.traces.reading import first_line

_TRACE = flags.DEFINE_string("trace", None, "Trace file, plain or .gz.")
_FORMAT = flags.DEFINE_string("format", "auto", "Its format; auto goes by the file's ending or content.")
_COLUMNS = flags.DEFINE_string("columns", "", "Names of a table's columns in their order, such as id,time,lon,lat.")
_TYPES = flags.DEFINE_string("types", "", "Only nodes of these types, such as car,bus.")
_TIMES = flags.DEFINE_string("times", "", "Only begin,end: seconds of the file, or dates with a time.")
_AREA = flags.DEFINE_string("area", "", "Only west,south,east,north, in the unit of the file.")
_GAPS = flags.DEFINE_string("gaps", "hold", "Nodes that are not seen stand still (hold) or are gone (absent).")
_RADIUS = flags.DEFINE_float("radius", 100.0, "Metres within which two are in contact.", lower_bound=0.0)
_DT = flags.DEFINE_float("dt", 0.0, "Seconds a round; 0 takes the spacing of the samples.", lower_bound=0.0)
_PICTURE = flags.DEFINE_string("picture", "", "With --config: picture of the clients' data (.png, .pdf or .svg).")
common.study_flags()
WORDS, DOES = ("trace",), "reading the data"


def main() -> int:
    """Print one line for each fact about a trace, or the data that the clients of a study will hold."""
    if common.value_of("config") is not None:
        if _TRACE.value:
            raise UserError(f"--trace={_TRACE.value} and --config are both given; one of them says what is described")
        return _show_clients()
    if fields := common.fields_given():
        raise UserError(f"--config.{next(iter(fields))} needs --config=FILE, the study whose field it is")
    if _PICTURE.value:
        raise UserError(f"--picture={_PICTURE.value} needs --config=FILE, the study whose data it shows")
    if not _TRACE.value:
        raise UserError("--trace=FILE is missing: a trace to describe; or --config=FILE, a study")
    path = Path(_TRACE.value)
    lines = _samples(path) if _FORMAT.value == "auto" and not _COLUMNS.value and _may_be_samples(path) else []
    if lines:
        for flag in (_TYPES, _TIMES, _AREA, _RADIUS, _DT, _GAPS):
            if flag.present:
                raise UserError(f"--{flag.name}={flag.value} is for a trace, and {_TRACE.value} is a data set")
    else:
        part = part_of(_TYPES.value, _TIMES.value, _AREA.value)
        loaded = load(_TRACE.value, _FORMAT.value, _COLUMNS.value, part)
        lines = [("trace", _TRACE.value), *describe(loaded, _RADIUS.value, _DT.value, _GAPS.value)]
    width = max(len(what) for what, _ in lines)
    for what, value in lines:
        print(f"{what:{width}}  {value}")
    return 0


def _may_be_samples(path: Path) -> bool:
    """Tell whether a path may be a data set: a table may, unless it has no header or one of a trace or of contacts."""
    if path.suffix != ".csv" or not path.is_file():
        return path.is_dir() or path.suffix == ".npz"
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        line = first_line(file.read(2**16))
    row = header_of(next(csv.reader([line], delimiter=marks_of([line])[0]), []))
    known = [role for role, names in NAMES.items() if {role, *names} & {*row}]
    return is_header(row) and len(known) < 3 and not {"i", "j"} <= {*row}


def _samples(path: Path) -> list[tuple[str, str]]:
    """Describe a data set in words; nothing for a path that is none."""
    from mdfl_jax.data import sources  # imports JAX, which traces do without
    from mdfl_jax.data.dataset import facts

    name = sources.name_of(path)
    return [("data set", str(path)), *facts(sources.load(name, str(path.parent)))] if name else []


def _show_clients() -> int:
    """Print the clients' data of a study, once for each group of sweep points that draw the same."""
    from mdfl_jax.report.panels import label_counts
    from mdfl_jax.report.style import save_picture
    from mdfl_jax.study import make_study
    from mdfl_jax.study.ahead import partitions

    path = Path(_PICTURE.value)
    if _PICTURE.value:
        label_counts.check_picture(path)
    common.setup_jax("")
    study = make_study(common.read_config())
    drawn = partitions.draw(study)
    for k, data in enumerate(drawn, 1):
        print(partitions.describe(study, data))
        if _PICTURE.value:
            own = path if len(drawn) == 1 else path.with_stem(f"{path.stem}_{k}")
            counts, mobile = data.counts[0], data.is_mobile[0]
            save_picture(partial(label_counts.draw_counts, counts, mobile), [own], "picture")
            print(f"\npicture: {own}")
        print("\n" * (k < len(drawn)), end="")
    return 0
