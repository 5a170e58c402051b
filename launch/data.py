"""Describes a trace of positions or a contact list: python -m launch.data --trace=FILE

--format=NAME  sumo, sumo_geo, bonnmotion, ns2, csv, csv_geo or contacts; by default found from the file
--radius=R     distance in metres within which two clients are in contact
--dt=SECONDS   length of a round; 0 takes the spacing of the samples
"""

from absl import flags

from launch import common
from mdfl_jax.errors import UserError
from mdfl_jax.traces import load
from mdfl_jax.traces.describe import describe

_TRACE = flags.DEFINE_string("trace", None, "Trace file, plain or .gz.")
_FORMAT = flags.DEFINE_string("format", "auto", "Its format; auto goes by the file's ending or content.")
_RADIUS = flags.DEFINE_float("radius", 100.0, "Metres within which two are in contact.", lower_bound=0.0)
_DT = flags.DEFINE_float("dt", 0.0, "Seconds a round; 0 takes the spacing of the samples.", lower_bound=0.0)


def main() -> int:
    """Prints one line for each fact about the trace."""
    if not _TRACE.value:
        raise UserError("--trace=FILE is missing: a trace to describe")
    lines = [("trace", _TRACE.value), *describe(load(_TRACE.value, _FORMAT.value), _RADIUS.value, _DT.value)]
    width = max(len(what) for what, _ in lines)
    for what, value in lines:
        print(f"{what:{width}}  {value}")
    return 0


if __name__ == "__main__":
    common.run(main)
