"""What makes two runs the same: each field by its declaration, files and code by their content, and JAX's switches."""

import contextlib
import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from made_study import measured, put
from studies import go, study_of
from tiny import tiny_config

from mdfl_jax.config.resolve import all_fields, default_config, resolve
from mdfl_jax.config.sections import entry_registries, flat
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import fields_of
from mdfl_jax.storage.disk import plain
from mdfl_jax.study import identity, make_study
from mdfl_jax.study.identity import GROWS, JAX_SWITCHES, RESULTS, name_run, of_dataset, other_config, run_config
from mdfl_jax.study.runner import Program

DEFAULTS = Path(__file__).with_name("defaults.json")
"""The defaults of all fields on which runs depend, and the version of the numbers for which they were written."""

NO_NUMBER = {
    *("labels", "data.categories"),  # the data are told by their content
    *("name", "title", "baseline", "target", "loggers", "select", "select_by", "x_axis", "data.dir", "trace.made_by"),
    *("engine.runs_per_batch", "engine.memory_mib", "engine.checkpoint_minutes", "engine.states_mib"),
}
"""The fields that change no number of a run."""


def defaults_now():
    """The defaults of all fields, and of the numbers of all members as FAMILY MEMBER.NUMBER."""
    fields = plain(flat(default_config().to_dict()))
    found = {path: fields[path] for path in sorted(fields) if path not in identity.not_in_runs()}
    for family in entry_registries():
        for member in family.registry:
            if family.registry.member(member).home:
                of = fields_of(family.registry.numbers(member))
                found |= {f"{family.registry.kind} {member}.{name}": field.default for name, field in of.items()}
    return plain(found)


def names(**changes):
    """The names of the runs of a tiny study, by point."""
    return make_study(tiny_config(**{"seeds": 1} | changes)).names


class Begun(BaseException):
    """A study has written what it is, and would compile its program."""


def compile(program):
    raise Begun


def recorded(folder, **changes):
    """Writes a study of two rounds, whose records nobody has computed."""
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Begun):
        patch.setattr(Program, "compile", compile)
        go(folder, rounds=2, **changes)
    study = study_of(rounds=2, **changes)
    for run in study.runs:
        of = study.points[run.point].experiment
        put(folder, study.name(run), measured("made", run.seed, 2), run_config(of), other=other_config(of))


def with_other(experiment, path):
    """The experiment with another value in one field, which need not be a valid one."""
    section, _, name = path.rpartition(".")
    owner = getattr(experiment, section) if section else experiment
    before = getattr(owner, name)
    known = all_fields()[path].metadata.get("names") or ()
    known = [member for member in (known() if callable(known) else known) if member != before]
    other = {bool: not before, int: 8 if before == 7 else 7, float: 0.125, str: "other"}
    value = known[-1] if known else other.get(all_fields()[path].type, (1, 2))
    changed = dataclasses.replace(owner, **{name: value})
    return dataclasses.replace(experiment, **{section: changed}) if section else changed


def test_every_field_changes_the_name_or_is_declared_to_change_no_number():
    experiment = resolve(tiny_config())
    own = name_run(experiment, {}, {})

    def is_same(path):
        try:
            return name_run(with_other(experiment, path), {}, {}) == own
        except UserError:  # the member cannot be there
            return False

    same = {path for path in all_fields() if is_same(path)}
    assert same == NO_NUMBER | {*GROWS} | {"use"}  # what is used is told by its content
    assert {path for path, field in all_fields().items() if not field.metadata.get("in_runs", True)} == NO_NUMBER


def test_a_run_that_counts_seconds_for_its_sweep_is_not_the_run_that_counts_none():
    experiment = resolve(tiny_config())
    by_sweep = [dataclasses.replace(experiment, sweep=text) for text in ("rounds=4,6", "cost.bandwidth=inf,1e6")]
    of_rounds, of_costs = (name_run(each, {}, {}) for each in by_sweep)
    assert of_rounds == name_run(experiment, {}, {}) != of_costs


def test_fields_keep_the_defaults_that_runs_of_earlier_versions_had():
    """Whoever changes a default raises `RESULTS` and runs this file, which writes defaults.json anew."""
    then, now = json.loads(DEFAULTS.read_text()), defaults_now()
    kept = {path: default for path, default in then["defaults"].items() if path in now}
    assert {"results": RESULTS, **{path: now[path] for path in kept}} == {"results": then["results"], **kept}


def test_the_digest_of_a_data_set_is_that_of_its_samples(tiny, tmp_path):
    study = make_study(tiny())
    dataset = study.groups[0].dataset
    assert of_dataset(dataset) == study.inputs["data.name=digits"] == of_dataset(dataset._replace())
    images = dataset.x_train.copy()
    images[3, 2, 1] += 1
    for other in (
        dataset._replace(x_train=images),
        dataset._replace(x_train=dataset.x_train[::-1]),
        dataset._replace(y_test=(dataset.y_test + 1) % 10),
        dataset._replace(x_test=dataset.x_test[:-1]),
    ):
        assert of_dataset(other) != of_dataset(dataset)
    config = {"seeds": 1, "data.name": "mine", "data.limit_train": 0, "data.limit_test": 0}
    arrays = {f"{of}_{part}": getattr(dataset, f"{of}_{part}") for part in ("train", "test") for of in ("x", "y")}
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        np.savez(tmp_path / folder / "mine.npz", **arrays)
    recorded(tmp_path / "run", **config, **{"data.dir": str(tmp_path / "a")})
    assert names(**config, **{"data.dir": str(tmp_path / "a")}) == names(**config, **{"data.dir": str(tmp_path / "b")})
    np.savez(tmp_path / "b" / "mine.npz", **arrays | {"x_train": images})
    with pytest.raises(UserError, match=r"data\.name=mine has changed"):
        go(tmp_path / "run", rounds=2, **config, **{"data.dir": str(tmp_path / "b")})


def test_a_file_may_be_moved_and_renamed_but_not_changed(tmp_path):
    trace = "".join(f"\n{t},v{i},{10 * i + t},{t}" for t in range(9) for i in range(6))
    for field, changes, text, more in (
        ("graph.file", {"network.graph": "file"}, "0,1\n1,2\n2,3\n3,4\n4,5", "\n0,3"),
        ("data.table", {"data.partition": "table"}, "owner\n" + "0\n1\n2\n3\n4\n5\n" * 20, "\n"),
        ("trace.file", {"network.mobility": "trace", "trace.at_end": "hold"}, "time,id,x,y" + trace, "\n9,v0,12,12"),
    ):
        file, moved = tmp_path / f"{field}.csv", tmp_path / f"{field}-renamed.csv"
        file.write_text(text)
        first = names(**changes, **{field: str(file)})
        file.rename(moved)
        assert names(**changes, **{field: str(moved)}) == first, field
        moved.write_text(text + more)
        assert names(**changes, **{field: str(moved)}) != first, field


RULE = """
from mdfl_jax.metrics import HOLDS, metric
import own_helper

@metric("own", still=HOLDS, shape=())
def own(at):
    return own_helper.VALUE
"""


@pytest.mark.usefixtures("unregistered")
def test_own_code_is_told_by_its_content_and_by_that_of_all_that_it_imports(tmp_path, monkeypatch):
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    texts = {"rule": RULE, "own_helper": "from own_numbers import VALUE", "own_numbers": "VALUE = 2.0"}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    recorded(tmp_path / "run", seeds=1, use=str(folder / "rule.py"))
    first = names(use=str(folder / "rule.py"))
    monkeypatch.chdir(folder)
    assert names(use="rule.py") == first
    for name in ("own_numbers", "own_helper", "rule"):
        (folder / f"{name}.py").write_text(texts[name] + "\n# changed")
        with pytest.raises(UserError, match=rf"own_files\.{name}\.py is '\w+' there and '\w+' here"):
            go(tmp_path / "run", **{"seeds": 1, "rounds": 2, "use": str(folder / "rule.py")})
        (folder / f"{name}.py").write_text(texts[name])
    (folder / "unused.py").write_text("1")
    assert names(use=str(folder / "rule.py")) == first


def test_the_switches_of_jax_that_change_random_numbers_are_a_part_of_it(tmp_path):
    recorded(tmp_path, seeds=1)
    others = {"jax_default_prng_impl": "rbg", "jax_random_seed_offset": 1}
    for name in JAX_SWITCHES:
        before = getattr(jax.config, name)
        try:
            jax.config.update(name, others.get(name, not before))
            with pytest.raises(UserError, match=rf"switches\.{name} is .* there and .* here; choose another folder"):
                go(tmp_path, seeds=2, rounds=2)
        finally:
            jax.config.update(name, before)


if __name__ == "__main__":
    DEFAULTS.write_text(json.dumps({"results": RESULTS, "defaults": defaults_now()}, indent=1) + "\n")
