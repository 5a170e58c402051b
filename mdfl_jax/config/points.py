"""The points of a sweep: lists and names them, groups those that share a compiled program, and says what they cite."""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from mdfl_jax.config.resolve import all_fields, check_key, check_together, parse_text, replace_all
from mdfl_jax.config.sections import Experiment, effective, entries_in_use, flat, schema, task_of
from mdfl_jax.core.errors import UserError, errors_about, unknown_name
from mdfl_jax.core.outcomes import baseline_values, baselines, name_of, selected_fields
from mdfl_jax.core.papers import SOFTWARE, Citations, citations_of, papers, united
from mdfl_jax.core.section import switches_of
from mdfl_jax.core.sweep_text import labels_of, show, split_axes
from mdfl_jax.data.sources import SOURCES, WELL_KNOWN
from mdfl_jax.mobility.registry import OWN_WORLD, world_in
from mdfl_jax.mobility.rule import PROGRAMS

OF_A_POINT = ("use", "vary", "held_seed")  # the fields outside of sections in which points may differ
MOST_POINTS = 10_000  # of a sweep; making them ready takes some milliseconds each
MOST_RUNS = 1_000_000  # of a study: points x seeds


class Point(NamedTuple):
    """One combination of the axes' values.

    Attributes:
      id: The name of the point in results, such as 'dcm' or 'dcm, alpha=0.1'.
      overrides: The values by path, {'network.mobility': 'dcm', ...}, one entry for each field of the axes.
      experiment: The configuration with these values.
    """

    id: str
    overrides: dict[str, Any]
    experiment: Experiment


def can_be_axis(path: str) -> bool:
    """Tell whether a sweep can vary a field: not those of the section engine, nor those of the whole study.

    Points that differ in the latter could not be compared round by round and seed by seed.
    """
    return path in OF_A_POINT or ("." in path and not path.startswith("engine."))


def _parse_value(path: str, text: str) -> Any:
    """Return the value of a field in a sweep.

    Raises:
      UserError: If no field has this path, if a sweep cannot vary it, or if it does not take the value.
    """
    check_key(path)
    if not can_be_axis(path):
        sweepable = [p for p in all_fields() if can_be_axis(p)]
        raise UserError(f"{path} cannot be an axis; known axes: {', '.join(sorted(sweepable))}")
    return parse_text(path, text)


Axes = dict[tuple[str, ...], list[tuple[Any, ...]]]


def parse_axes(sweep: str) -> Axes:
    """Parse the text of a sweep into its axes (`mdfl_jax.core.sweep_text`), with values in the types of their fields.

    Returns:
      {(field, ...): [(value, ...), ...]}. Each tuple has one element, unless fields are tied.

    Raises:
      UserError: If the text is of another form, a field is unknown, a field does not take a value, or there are more
        than `MOST_POINTS` combinations, which are counted before the values are read.
    """
    num_points = math.prod(axis.count(",") + 1 for axis in sweep.split(";"))
    if num_points > MOST_POINTS:
        raise UserError(f"sweep has {num_points:,} points; at most {MOST_POINTS:,} are allowed")
    axes: Axes = {}
    for paths, texts in split_axes(sweep).items():
        with errors_about("sweep"):
            axes[paths] = [tuple(map(_parse_value, paths, value)) for value in texts]
        if len(set(axes[paths])) < len(axes[paths]):
            raise UserError(f"sweep: {'+'.join(paths)} holds a value twice: {','.join(map('+'.join, texts))}")
    return axes


def points(experiment: Experiment) -> list[Point]:
    """Return a point for each combination of the axes' values, the last axis changing fastest. No axes give one point.

    Raises:
      UserError: As `parse_axes`, or if the values of a combination contradict each other, or if the study has more than
        `MOST_RUNS` runs.
    """
    axes = parse_axes(experiment.sweep)
    num_points = math.prod(map(len, axes.values()))
    if (num_runs := num_points * experiment.seeds) > MOST_RUNS:
        raise UserError(
            f"seeds is {experiment.seeds:,}, which makes {num_runs:,} runs of the {num_points:,} points of the sweep; "
            f"at most {MOST_RUNS:,} are allowed"
        )
    found = []
    for values in itertools.product(*axes.values()):
        overrides = dict(zip(itertools.chain(*axes), itertools.chain(*values)))
        changed = replace_all(experiment, overrides)
        with errors_about(f"sweep, point {name_of(overrides)!r}"):
            check_together(changed)
        found.append(Point(name_of(overrides), overrides, changed))
    return found


def baseline_of(experiment: Experiment, all_points: list[Point]) -> list[int | None]:
    """Return the baseline of each point (`mdfl_jax.core.outcomes.baselines`), and check the field that names it.

    Raises:
      UserError: If the baseline is not of the form field=value, or if the field does not take the value.
    """
    if experiment.baseline:
        values = baseline_values(experiment.baseline)
        with errors_about("baseline"):
            for path, text in values.items():
                _parse_value(path, text)
    points_of = [{"overrides": point.overrides} for point in all_points]
    return baselines({"config": {"baseline": experiment.baseline, "sweep": experiment.sweep}, "points": points_of})


def check_labels(experiment: Experiment, all_points: list[Point]) -> None:
    """Check that a point has each value that the field `labels` names, and that the sweep varies each field.

    Raises:
      UserError: If a label names anything else.
    """
    first = all_points[0]
    fixed = flat(dataclasses.asdict(first.experiment)) | effective(first.experiment)
    swept = [(path, value) for point in all_points for path, value in point.overrides.items()]
    values = dict.fromkeys([*((path, value) for path, value in fixed.items() if path not in first.overrides), *swept])
    known = {text for path, value in values for text in (show(value), f"{path}={show(value)}")}
    known |= {*first.overrides, *(point.id for point in all_points)}
    for name in labels_of(experiment.labels):
        if name not in known:
            raise UserError(f"labels: {unknown_name('value, or field of the sweep,', name, known)}")


def check_select(experiment: Experiment, all_points: list[Point]) -> None:
    """Check that ``select`` names swept fields, and that there are validation samples to choose by.

    Raises:
      UserError: If ``select`` is no axis of numbers, if there are no validation samples, or if a baseline is set too:
        the points that are compared with a baseline would not be at their best value.
    """
    path, paths = experiment.select, selected_fields(experiment.select)
    if not paths:
        return
    swept = all_points[0].overrides
    if len(set(paths)) < len(paths) or any(p not in swept or check_key(p).type not in (int, float) for p in paths):
        raise UserError(
            f"select is {path!r}; it must be an axis of numbers of the sweep, or several with commas, and the sweep is "
            f"{experiment.sweep!r}"
        )
    for point in all_points:
        if not point.experiment.data.validation and task_of(point.experiment).of_datasets:
            raise UserError(f"select is {path!r}, which needs validation samples; data.validation is 0")
    if experiment.baseline:
        raise UserError(f"baseline is {experiment.baseline!r}; it must be empty where select chooses points")


class ProgramKey(NamedTuple):
    """What decides the compiled program of a point. Points with equal keys share one.

    Attributes:
      settings: the configuration without its traced values.
      switches: the names of what the program has and another one may leave out (`mdfl_jax.core.section.switches_of`).
    """

    settings: Experiment
    switches: tuple[str, ...]


def program_key(experiment: Experiment) -> ProgramKey:
    """Return what decides the compiled program of a configuration."""
    return ProgramKey(static_settings(experiment), switches_of(experiment))


def static_settings(experiment: Experiment) -> Experiment:
    """Return the configuration without its traced values, and with one name for the mobility rules of a program."""
    traced = {
        path: field.default
        for path, field in all_fields().items()
        if field.metadata.get("traced") and "read" not in field.metadata  # arrays differ in shape
    }
    key = replace_all(experiment, traced)
    if experiment.network.graph:  # a graph has no places
        plain = schema()()
        key = dataclasses.replace(key, motion=plain.motion, trace=plain.trace, sweep="")
        return replace_all(key, {"network.mobility": "", "network.world": OWN_WORLD, "network.contact": ""})
    # The mobility rules of one world share a program. Contact lists do not: they differ in length.
    world = PROGRAMS[world_in(experiment)]
    if world == "contacts":
        key = dataclasses.replace(key, trace=experiment.trace, motion=experiment.motion)
    return replace_all(key, {"network.mobility": "", "network.world": world, "sweep": ""})


def group_points(all_points: list[Point]) -> list[list[int]]:
    """Return the indices of the points of each compiled program, ordered by the first point of each program."""
    groups: dict[ProgramKey, list[int]] = {}
    for i, point in enumerate(all_points):
        groups.setdefault(program_key(point.experiment), []).append(i)
    return list(groups.values())


def to_cite(points: Iterable[Point]) -> Citations:
    """Return what a study with these points cites, the software first, then in the order of the families."""
    software = {SOFTWARE: {"entry": papers()[SOFTWARE].entry, "for": ["the simulator"]}}
    return united([software, *itertools.chain(*map(_of_point, points))])


def _of_point(point: Point) -> Iterator[Citations]:
    """Yield what each entry cites that a point uses."""
    for family, name, _ in entries_in_use(point.experiment):
        yield citations_of(family.registry.member(name).cite, f"{family.registry.kind} {name}")
    data = point.experiment.data.name
    cite = SOURCES.member(data).cite if data in SOURCES else WELL_KNOWN.get(data.removeprefix("tfds:"), "")
    yield citations_of(cite, f"data {data}")
