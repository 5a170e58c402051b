"""What a paper that uses a study cites: the software, and the papers of the members that the study uses."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mdfl_jax.config.points import Point
from mdfl_jax.config.sections import in_use
from mdfl_jax.core.papers import SOFTWARE, cited, papers
from mdfl_jax.data.sources import PUBLIC, SOURCES

Citations = dict[str, dict[str, Any]]
"""By the key of a paper its BibTeX ``entry`` and what it is cited ``for``, a list of texts."""


def to_cite(points: Iterable[Point]) -> Citations:
    """Return what a study with these points cites, the software first, then in the order of the families."""
    software = {SOFTWARE: {"entry": papers()[SOFTWARE].entry, "for": ["the simulator"]}}
    return united([software, *itertools.chain(*map(_of_point, points))])


def _of_point(point: Point) -> Iterator[Citations]:
    """Yield what each member cites that a point uses."""
    for family, name, _ in in_use(point.experiment):
        yield _of(family.registry.member(name).cite, f"{family.registry.kind} {name}")
    data = point.experiment.data.name
    cite = SOURCES.member(data).cite if data in SOURCES else PUBLIC.get(data.removeprefix("tfds:"), "")
    yield _of(cite, f"data {data}")


def _of(cite: str, what: str) -> Citations:
    return {of.key: {"entry": of.entry, "for": [f"{what}, {place}" if place else what]} for of, place in cited(cite)}


def united(parts: Iterable[Citations]) -> Citations:
    """Return what several studies, or several members, cite: each paper once, with all that it is cited for."""
    found: Citations = {}
    for key, of in itertools.chain(*(part.items() for part in parts)):
        known = found.setdefault(key, {"entry": of["entry"], "for": []})["for"]
        known += [line for line in of["for"] if line not in known]
    return found


def as_bibtex(citations: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what is cited as BibTeX, each entry behind a comment that says what for."""
    return "\n\n".join(f"% {'; '.join(of['for'])}\n{of['entry']}" for of in citations.values())
