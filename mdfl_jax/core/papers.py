"""The papers of the registries' entries, and the software itself, as BibTeX in papers.bib.

An entry is registered with ``cite="tang2018d2: algorithm 1; madfl"``: keys of papers.bib, each with an optional place
in the paper. An entry of your own may have a whole BibTeX record instead of a key.
"""

import functools
import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mdfl_jax.core.errors import UserError, unknown_name

SOFTWARE = "mdfl_jax"  # the key of the entry of this package
_ENTRY = re.compile(r"^\s*@\w+\s*\{\s*([^\s,]+),.*?^\}", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^\s*(\w+)\s*=\s*[{\"](.*)[}\"],?\s*$", re.MULTILINE)


class Paper(NamedTuple):
    """A paper.

    Attributes:
      key: its key in BibTeX.
      entry: its BibTeX entry.
    """

    key: str
    entry: str

    @property
    def fields(self) -> dict[str, str]:
        """The fields of the entry, without the marks of LaTeX."""
        return {name: re.sub(r"\\[a-zA-Z]\s|[{}$^\\'\"`~]", "", value) for name, value in _FIELD.findall(self.entry)}

    @property
    def short(self) -> str:
        """The paper as a text names it: Tang et al. 2018; or its tag in this package, such as MADFL."""
        fields = self.fields
        if "shorthand" in fields:
            return fields["shorthand"]
        last = [name.partition(",")[0] for name in fields.get("author", self.key).split(" and ")]
        names = f"{last[0]} et al." if len(last) > 3 else ", ".join(last)
        return " ".join(filter(None, (names, fields.get("year", ""))))

    @property
    def whole(self) -> str:
        """The paper as a list of references names it, with its title."""
        fields = self.fields
        places = ("journal", "booktitle", "institution", "school", "howpublished")
        place = next((fields[name] for name in places if name in fields), "")
        eprint = f"arXiv:{fields['eprint']}" if "eprint" in fields else fields.get("note", "")
        authors = ", ".join(" ".join(reversed(name.split(", "))) for name in fields.get("author", "").split(" and "))
        parts = authors, fields.get("title", self.key), place or eprint, fields.get("year", "")
        return ". ".join(filter(None, parts))


@functools.cache
def papers() -> dict[str, Paper]:
    """Return the papers of papers.bib by their keys."""
    return entries((Path(__file__).parent / "papers.bib").read_text(encoding="utf-8"))


def entries(text: str) -> dict[str, Paper]:
    """Return the entries of a text in BibTeX by their keys."""
    return {found[1]: Paper(found[1], found[0].strip()) for found in _ENTRY.finditer(text)}


def cited(cite: str) -> list[tuple[Paper, str]]:
    """Return the papers with which an entry is registered, each with the place in it, which may be empty.

    Args:
      cite: keys of papers.bib with places, as "tang2018d2: algorithm 1; madfl"; or entries in BibTeX.

    Raises:
      UserError: if there is no such key.

    >>> [(paper.short, place) for paper, place in cited("tang2018d2: algorithm 1; madfl: eq. 2")]
    [('Tang et al. 2018', 'algorithm 1'), ('MADFL', 'eq. 2')]
    """
    if own := entries(cite):
        return [(paper, "") for paper in own.values()]
    found = []
    for part in filter(None, (part.strip() for part in cite.split(";"))):
        key, _, place = part.partition(":")
        if key not in papers():
            raise UserError(f"{unknown_name('paper', key, papers())}; or give an entry in BibTeX")
        found.append((papers()[key], place.strip()))
    return found


def in_words(cite: str) -> str:
    """Return the papers and places of a registration in words.

    >>> in_words("tang2018d2: algorithm 1; madfl: eq. 2")
    'Tang et al. 2018, algorithm 1; MADFL, eq. 2'
    """
    return "; ".join(", ".join(filter(None, (paper.short, place))) for paper, place in cited(cite))


Citations = dict[str, dict[str, Any]]
"""By the key of a paper its BibTeX ``entry`` and what it is cited ``for``, a list of texts."""


def citations_of(cite: str, what: str) -> Citations:
    """Return the citations of an entry or a data set: its papers, each with ``what`` and the place as its purpose."""
    return {of.key: {"entry": of.entry, "for": [f"{what}, {place}" if place else what]} for of, place in cited(cite)}


def united(parts: Iterable[Citations]) -> Citations:
    """Return the citations of several studies or entries: each paper once, with all its purposes."""
    found: Citations = {}
    for key, of in itertools.chain(*(part.items() for part in parts)):
        known = found.setdefault(key, {"entry": of["entry"], "for": []})["for"]
        known += [line for line in of["for"] if line not in known]
    return found


def as_bibtex(citations: Mapping[str, Mapping[str, Any]]) -> str:
    """Return citations as BibTeX; a comment before each record names its purposes."""
    return "\n\n".join(f"% {'; '.join(of['for'])}\n{of['entry']}" for of in citations.values())
