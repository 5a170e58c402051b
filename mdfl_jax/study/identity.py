"""What makes two runs the same run, and what two studies have in common.

A run is told by the resolved configuration of its sweep point and by its seed, not by the name or the index of the
point. Fields that are declared with ``in_runs=False`` (title, target, baseline, ...) are no part of it, and neither are
the fields of `GROWS`, which only say how many runs a study has and how long they are.
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mdfl_jax.config.families import FAMILIES
from mdfl_jax.config.resolve import all_fields, default_config, files_of
from mdfl_jax.config.sections import flat
from mdfl_jax.core.numbers import fields_of as numbers_of
from mdfl_jax.core.outcomes import seeds_of
from mdfl_jax.storage.disk import dumps, plain

GROWS = ("seeds", "first_seed", "sweep", "rounds")
"""The fields whose values may grow without running again what is there."""
DIGESTS = ("own_files", "inputs")  # entries of the configuration in config.json that are no fields
NAMED_BY = frozenset({"data.dir", "trace.made_by"})
"""The fields on which no run depends, and that are in the names of last states all the same."""
MOST_NAMED = 6  # the differences that one line for the user names


class Field(NamedTuple):
    """A field of which two studies have different values, by its path, and what the two are called."""

    path: str
    there: Any
    here: Any
    there_is: str = "there"
    here_is: str = "here"

    def __str__(self) -> str:
        return f"{self.path} is {self.there!r} {self.there_is} and {self.here!r} {self.here_is}"


def in_words(fields: Iterable[Field]) -> str:
    """Return the differences in words, the first ones if there are many."""
    lines = [str(field) for field in fields]
    more = [f"and {len(lines) - MOST_NAMED} more fields"] if len(lines) > MOST_NAMED else []
    return ", ".join([*lines[:MOST_NAMED], *more])


@cache
def _not_in_runs(fields: tuple[str, ...]) -> frozenset[str]:
    declared = all_fields()
    return frozenset(path for path in fields if not declared[path].metadata.get("in_runs", True))


def not_in_runs() -> frozenset[str]:
    """Return the paths of the fields on which no run depends."""
    return _not_in_runs(tuple(all_fields()))  # a user's own files may add fields


def typed(path: str, value: Any) -> Any:
    """Return a value of config.json in the type of its field. JSON has no infinity, so that it is a text there."""
    fields = all_fields()
    is_number = path in fields and fields[path].type is float
    return float(value) if is_number and isinstance(value, str) else value


def fields_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a configuration by path.

    A field that is not there has its default. The user's files are named without folders, since their
    digests are compared.
    """
    return plain(flat(default_config().to_dict())) | _written(config)


def _written(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a configuration has itself."""
    own = {name: value for name, value in config.items() if name not in DIGESTS}
    own["use"] = ",".join(Path(path).name for path in files_of(str(config.get("use") or "")))
    return plain(flat(own))


def of_runs(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields on which a run depends."""
    left_out = not_in_runs().union(GROWS)
    return {path: value for path, value in fields.items() if path not in left_out}


def digest(value: Any) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a tree, whatever the order of its keys."""
    ordered = dict(sorted(value.items())) if isinstance(value, Mapping) else value
    return hashlib.sha256(dumps(ordered).encode()).hexdigest()[:16]


def point_digests(manifest: Mapping[str, Any], with_numbers: bool = True) -> list[str]:
    """Return what tells each sweep point of a config.json from all others, in any study.

    Args:
      manifest: The content of config.json.
      with_numbers: Whether the numbers of members are compared as they are in effect, so that a default and the same
        value in the configuration are one.
    """
    base, found = fields_of(manifest["config"]), []
    for point in manifest.get("points") or [{}]:
        swept = plain(point.get("overrides", {}))
        fields = base | swept
        if with_numbers:
            fields = _with_defaults(fields | plain(point.get("numbers", {})))
        found.append(digest(of_runs(fields) | {path: swept[path] for path in not_in_runs() & swept.keys()}))
    return found


def state_names(manifest: Mapping[str, Any]) -> list[str]:
    """Return what the files of the last states of each sweep point are named after.

    They are digests of the fields that the version knew which wrote config.json, so its files are found by any other.
    """
    base = _written(manifest["config"])
    points = manifest.get("points") or [{}]
    own = [base | plain(point.get("overrides", {})) | plain(point.get("numbers", {})) for point in points]
    return [digest(of_runs(fields) | {path: fields[path] for path in NAMED_BY & fields.keys()}) for fields in own]


def _with_defaults(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with the defaults of numbers that are not there.

    They are numbers of members that are not in use.
    """
    found = dict(fields)
    for registry, section, member in FAMILIES:
        name = str(found.get(member))
        for number, of in numbers_of(registry.numbers(name)).items() if name in registry else ():
            if found.get(path := f"{section}.{number}") is None:
                found[path] = plain(of.default)
    return found


class Comparison(NamedTuple):
    """How a study that is there differs from one that is wanted here.

    Attributes:
      fields: The fields and files for which runs that are there are none of the wanted ones, in words; "" if all of
        them are wanted.
      grown: The fields of `GROWS` that differ.
      others: The fields on which no run depends, and that differ.
      missing: (index of the wanted point, seed) of each run that is not there.
      rounds: The rounds (there, here).
    """

    fields: str
    grown: list[Field]
    others: list[Field]
    missing: list[tuple[int, int]]
    rounds: tuple[int, int]

    @property
    def is_same(self) -> bool:
        """Whether the study that is there has the wanted runs."""
        return not (self.fields or self.missing or self.rounds[0] != self.rounds[1])

    @property
    def grows(self) -> bool:
        """Whether the wanted study is the one that is there with further runs or rounds."""
        return not (self.fields or self.is_same or self.rounds[1] < self.rounds[0])

    def __str__(self) -> str:
        if self.fields:
            return self.fields
        count = f"{len(self.missing)} of the runs are not there"
        return in_words(self.grown) or count


def compare(there: Mapping[str, Any], here: Mapping[str, Any]) -> Comparison:
    """Compare the config.json of a study that is there with that of a study that is wanted.

    Args:
      there: The content of config.json in a workdir.
      here: The content of config.json of the wanted study.
    """
    manifests = (there, here)
    fields = [fields_of(manifest["config"]) for manifest in manifests]
    paths = dict.fromkeys([*fields[0], *fields[1]])
    differ = [Field(path, fields[0].get(path), fields[1].get(path)) for path in paths]
    differ = [field for field in differ if field.there != field.here]
    grown = [field for field in differ if field.path in GROWS]
    others = [field for field in differ if field.path in not_in_runs()]
    had, wanted = (list(_runs(manifest)) for manifest in manifests)
    there_keys, wanted_keys = {key for key, _ in had}, {key for key, _ in wanted}
    missing = [run for key, run in wanted if key not in there_keys]
    rounds = (int(fields[0]["rounds"]), int(fields[1]["rounds"]))
    words = ""
    if not there_keys <= wanted_keys:
        swept = {path for of in manifests for point in of.get("points") or [{}] for path in point.get("overrides", {})}
        own = [field for field in differ if field not in [*grown, *others] and field.path not in swept]
        words = in_words(own or [*grown, *[f for f in differ if f.path in swept]])
        words = words or "it has other runs"
    elif rounds[1] < rounds[0]:
        words = in_words(grown)
    words = words or _files(there["config"], here["config"], bool(missing))
    return Comparison(words, grown, others, missing, rounds)


def _runs(manifest: Mapping[str, Any]) -> Iterable[tuple[tuple[str, int], tuple[int, int]]]:
    """Yield (what tells a run from all others, (index of its point, seed)) for each run of a study."""
    config = fields_of(manifest["config"])
    first = int(config["first_seed"])
    whole = {"seeds": list(range(first, first + int(config["seeds"])))} | dict(manifest)
    for p, key in enumerate(point_digests(manifest)):
        yield from (((key, seed), (p, seed)) for seed in seeds_of(whole, p))


def _files(there: Mapping[str, Any], here: Mapping[str, Any], grows: bool) -> str:
    """Say in words which of the files that runs depend on has changed.

    Code without a file, of a notebook, has no digest and is left out.
    """
    now, then = here.get("inputs") or {}, there.get("inputs") or {}
    for name in now:
        if now[name] != then.get(name) and not (grows and name not in then):
            return f"{name} has changed since the study there has begun"
    ours, theirs = ({Path(k).name: v for k, v in (of.get("own_files") or {}).items() if v} for of in (here, there))
    for name in dict.fromkeys([*ours, *theirs]):
        if ours.get(name) != theirs.get(name) and not (grows and name not in theirs):
            return str(Field(f"own_files.{name}", theirs.get(name), ours.get(name)))
    return ""
