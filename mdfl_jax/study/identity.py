"""What makes two runs the same run: the names of runs. And what two studies have in common.

A run's name contains a digest of all that its numbers depend on: the resolved configuration of its sweep point, the
data and the files that it reads by their content, the user's own modules with those of hers that they import, and the
switches of JAX that change random numbers. The name or the index of the point are no part of it, and neither are fields
that are declared with ``in_runs=False`` (title, target, baseline, ...) and fields that have their defaults: a version
that adds a field goes on with the runs of the version before. The seed and the number of rounds stand beside the
digest, so that a run with fewer rounds is found by its name.
"""

import dataclasses
import hashlib
import os
import re
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from mdfl_jax.config.resolve import all_fields, default_config, used_files
from mdfl_jax.config.sections import Experiment, effective, entries_in_use, flat, schema
from mdfl_jax.core import own_files
from mdfl_jax.core.errors import UserError, errors_about
from mdfl_jax.core.numbers import fields_of
from mdfl_jax.core.own_files import digest_of, is_own, with_imports
from mdfl_jax.core.section import switches_of
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.metrics import METRICS
from mdfl_jax.storage.disk import dumps, plain
from mdfl_jax.storage.study_files import runs_in
from mdfl_jax.traces.reading import trace_files

RESULTS = 5
"""The version of the numbers. It is raised when the same fields give other numbers than before, by another default of a
field or by another rule, so that runs of the two are told apart."""
GROWS = ("seeds", "first_seed", "sweep", "rounds")
"""The fields whose values may grow without running again what is there."""
DIGESTS = ("own_files", "inputs", "switches")  # entries of the configuration in config.json that are no fields
JAX_SWITCHES = ("jax_threefry_partitionable", "jax_default_prng_impl", "jax_random_seed_offset")
"""The switches of JAX, or variables of the environment, that change random numbers."""
_MOST_NAMED = 6  # the differences that one line for the user names


class Field(NamedTuple):
    """A field of which two studies have different values, by its path, and what the two are called."""

    path: str
    there: Any
    here: Any
    there_is: str = "there"
    here_is: str = "here"

    def __str__(self) -> str:
        return f"{self.path} is {self.there!r} {self.there_is} and {self.here!r} {self.here_is}"


def differences_in_words(fields: Iterable[Field]) -> str:
    """Return the differences in words, the first ones if there are many."""
    lines = [str(field) for field in fields]
    more = [f"and {len(lines) - _MOST_NAMED} more fields"] if len(lines) > _MOST_NAMED else []
    return ", ".join([*lines[:_MOST_NAMED], *more])


@cache
def _defaults(fields: tuple[str, ...]) -> Mapping[str, Any]:
    defaults = plain(flat(default_config().to_dict()))
    return {path: defaults[path] for path in fields}


def _member_defaults(experiment: Experiment) -> dict[str, Any]:
    """Return the defaults of the numbers of the members in use, by path."""
    numbers = ((family.section, fields_of(type(numbers))) for family, _, numbers in entries_in_use(experiment))
    return plain({f"{section}.{name}": field.default for section, of in numbers for name, field in of.items()})


@cache
def _not_in_runs(fields: tuple[str, ...]) -> frozenset[str]:
    declared = all_fields()
    return frozenset(path for path in fields if not declared[path].metadata.get("in_runs", True))


def not_in_runs() -> frozenset[str]:
    """Return the paths of the fields on which no run depends."""
    return _not_in_runs(tuple(all_fields()))  # a user's own files may add fields


def typed(path: str, value: Any) -> Any:
    """Return a value of config.json in the type of its field. JSON has no infinity, so that it is a text there.

    Raises:
      UserError: for a text that is no number.
    """
    fields = all_fields()
    is_number = path in fields and fields[path].type is float
    try:
        return float(value) if is_number and isinstance(value, str) else value
    except ValueError:
        raise UserError(f"config.json: {path} is {value[:40]!r}; it must be a number") from None


def switches() -> dict[str, Any]:
    """Return the values of the switches of JAX on which random numbers depend (`JAX_SWITCHES`)."""
    return {name: getattr(jax.config, name) for name in JAX_SWITCHES}


def run_config(experiment: Experiment) -> dict[str, Any]:
    """Return the fields on which a run depends, by path, with the numbers of members that are in effect."""
    fields = plain(flat(dataclasses.asdict(experiment))) | plain(effective(experiment))
    left_out = not_in_runs().union(GROWS, {"use"})  # own files are told by their content
    return {path: value for path, value in fields.items() if path not in left_out}


def other_config(experiment: Experiment) -> dict[str, Any]:
    """Return the fields on which no run depends, by path, but for those that say how many runs a study has."""
    fields = plain(flat(dataclasses.asdict(experiment)))
    return {path: fields[path] for path in sorted((not_in_runs() | {"use"}) & fields.keys())}


def digest(value: Any) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a tree, whatever the order of its keys."""
    ordered = dict(sorted(value.items())) if isinstance(value, Mapping) else value
    return hashlib.sha256(dumps(ordered).encode()).hexdigest()[:16]


def name_run(experiment: Experiment, inputs: Mapping[str, str], own_files: Mapping[str, str]) -> str:
    """Return the name of a run without its seed and its rounds.

    Args:
      experiment: The resolved configuration of its sweep point.
      inputs: The digests of the data and the files that it reads, by FIELD=NAME (`mdfl_jax.study.identity`).
      own_files: The digests of the user's modules, by name.
    """
    by_content = {name.partition("=")[0] for name in inputs} - {"data.name"}
    fields, defaults = run_config(experiment), {**_defaults(tuple(all_fields())), **_member_defaults(experiment)}
    fields = {path: value for path, value in fields.items() if path not in by_content and value != defaults.get(path)}
    contents = {name.partition("=")[0]: value for name, value in inputs.items()}
    code = sorted(own_files.values())
    fields = dict(sorted(fields.items()))
    whole = {"results": RESULTS, "fields": fields, "inputs": contents, "code": code, "switches": switches()}
    alone = dataclasses.replace(experiment, sweep="")
    by_sweep = set(switches_of(experiment)) - set(switches_of(alone))  # the sweep decides what else its runs hold
    whole |= {"by_sweep": sorted(by_sweep)} if by_sweep else {}
    network = experiment.network
    words = f"{experiment.algorithm.name}.{network.graph or network.mobility}".lower()
    return f"{re.sub(r'[^a-z0-9_.]+', '_', words)[:60]}-{digest(whole)}"


def without_rounds(run: str) -> str:
    """Return the part of a run's name that all runs have in common that differ in nothing but their rounds.

    >>> without_rounds("dfl.dcm-0123456789abcdef-s0-r400")
    'dfl.dcm-0123456789abcdef-s0'
    """
    return run.rpartition("-r")[0]


def config_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a configuration in config.json by path.

    A field that is not there has its default. The user's files are named without folders, since their
    digests are compared.
    """
    own = {name: value for name, value in config.items() if name not in DIGESTS}
    own["use"] = ",".join(Path(path).name for path in used_files(str(config.get("use") or "")))
    return plain(flat(default_config().to_dict())) | plain(flat(own))


def compare_configs(
    there: Mapping[str, Any], here: Mapping[str, Any], begun: Collection[str] | None, finished: Collection[str]
) -> tuple[str, list[Field]]:
    """Compare the config.json of a study that is there with that of a study that is wanted.

    Args:
      there: The content of config.json in a workdir.
      here: The content of config.json of the wanted study.
      begun: The names of the runs of which anything is there. Others of ``there`` do not count. None: all count.
      finished: The names of those that have a record. Only these count if all wanted runs are among those of ``there``:
        what was added to a study can be taken back as long as no run of it is finished.

    Returns:
      (the fields and files that differ, in words, if a run that is there is not wanted here, "" if all are wanted; the
      fields that may differ: those on which no run depends, and then those of `GROWS`).
    """
    manifests = (there, here)
    fields = [config_fields(manifest["config"]) for manifest in manifests]
    paths = dict.fromkeys([*fields[0], *fields[1]])
    differ = [Field(path, fields[0].get(path), fields[1].get(path)) for path in paths]
    differ = [field for field in differ if field.there != field.here]
    grown = [field for field in differ if field.path in GROWS]
    others = [field for field in differ if field.path in not_in_runs()]
    everything = {run for _, _, run in runs_in(there)}
    wanted = {without_rounds(run) for _, _, run in runs_in(here)}
    is_less = wanted <= set(map(without_rounds, everything))
    had = everything if begun is None else everything.intersection(finished if is_less else begun)
    words = ""
    if not set(map(without_rounds, had)) <= wanted:
        swept = {path for of in manifests for point in of["points"] for path in point["overrides"]}
        own = [field for field in differ if field not in [*grown, *others] and field.path not in swept]
        words = differences_in_words(own) or _contents(there["config"], here["config"])
        words = words or differences_in_words([*grown, *(field for field in differ if field.path in swept)])
        words = words or "it has other runs, or those of an earlier version, whose numbers may differ"
    elif had and fields[1]["rounds"] < fields[0]["rounds"]:
        words = differences_in_words(grown)
    return words, [*others, *grown]


def _contents(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Say in words which of the files or switches that runs depend on has changed; "" if none has."""
    now, then = here.get("inputs") or {}, there.get("inputs") or {}
    for name in now:
        if name in then and now[name] != then[name]:
            return f"{name} has changed since the study there has begun"
    for entry in ("own_files", "switches"):
        ours, theirs = (of.get(entry) or {} for of in (here, there))
        for name in dict.fromkeys([*ours, *theirs]):
            if ours.get(name) != theirs.get(name):
                return str(Field(f"{entry}.{name}", theirs.get(name), ours.get(name)))
    return ""


def files_in(experiment: Experiment) -> dict[str, str]:
    """Return the existing files that the fields of a configuration name, as 'trace.file=sumo.xml' -> path.

    A field is declared with ``file=True``, and with ``folder=True`` if it may name a folder; a number of a member is
    declared with a function ``read``.
    """
    found = {}
    for section in dataclasses.fields(schema()):
        part = getattr(experiment, section.name)
        for field in dataclasses.fields(part) if dataclasses.is_dataclass(part) else ():
            value = getattr(part, field.name)
            reads = field.metadata.get("file") or field.metadata.get("read")
            is_there = os.path.exists if field.metadata.get("folder") else os.path.isfile
            if reads and isinstance(value, str) and is_there(value):
                found[f"{section.name}.{field.name}={Path(value).name}"] = value
    return found


def _digest_of(path: str | Path) -> str:
    """Return the digest of a file, or of a folder: that of the names and the contents of the files of a trace."""
    if not os.path.isdir(path):
        return digest_of(path)
    return digest({str(file.relative_to(path)): digest_of(file) for _, file in trace_files(path)})


def own_origins(experiments: Iterable[Experiment]) -> list[str]:
    """Return the files of the user that have registered a member in use or a metric; "__main__" for a notebook."""
    origins = {METRICS.origin(name) for name in METRICS}
    for experiment in experiments:
        origins |= {family.registry.origin(name) for family, name, _ in entries_in_use(experiment)}
    return sorted(origin for origin in origins if origin == "__main__" or is_own(origin))


def own_digests(experiments: Iterable[Experiment]) -> dict[str, str]:
    """Return the digests of the user's code on which configurations depend, by the names of its files.

    They are of the files that have registered a member in use or a metric, with the user's modules that these import,
    and of such code of a notebook or of the started script, "__main__".
    """
    used = list(experiments)
    origins = own_origins(used)
    found = own_files.digests(with_imports(origins))
    if own_files.MAIN in origins:
        members: dict[str, Any] = {f"metric {name}": METRICS[name] for name in METRICS if _in_main(METRICS, name)}
        for family, name, numbers in (entry for experiment in used for entry in entries_in_use(experiment)):
            if _in_main(family.registry, name):
                members[f"{family.registry.kind} {name}"] = (family.registry[name], type(numbers))
        with errors_about(f"the code of {', '.join(sorted(members))}"):
            found[own_files.MAIN] = own_files.digest_of_code(members[name] for name in sorted(members))
    return found


def _in_main(registry: Any, name: str) -> bool:
    return registry.origin(name) == own_files.MAIN


def of_dataset(dataset: Dataset) -> str:
    """Return a digest of the samples of a data set, whatever they were read from.

    This covers archives, prepared TensorFlow data sets and functions of the user alike. SHA-256 reads about 1 GB/s.
    """
    digest = hashlib.sha256()
    for name, value in dataset._replace(about="")._asdict().items():
        if isinstance(value, np.ndarray):
            digest.update(f"{name} {value.dtype} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).data if value.size else b"")
        elif isinstance(value, str | int | float | tuple | Enum):
            digest.update(f"{name} {value!r}".encode())
    return digest.hexdigest()[:16]


def input_digests(experiment: Experiment, data: str, starts: Iterable[Path]) -> dict[str, str]:
    """Return the digests of the inputs of a sweep point, by the field and the name of the file without its folder.

    Args:
      experiment: The configuration of the point.
      data: The digest of its data set (`of_dataset`); '' if the task draws its data.
      starts: The files of the checkpoints from which its runs start.
    """
    found = {f"data.name={experiment.data.name}": data} if data else {}
    found |= {name: _digest_of(path) for name, path in files_in(experiment).items()}
    files = {f"model.pretrained={file.parent.name}/{file.name}": file for file in starts}
    return found | {name: digest_of(file) for name, file in files.items()}
