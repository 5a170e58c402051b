"""What makes two runs the same: each field by its declaration, files and code by their content, and JAX's switches."""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from studies import go
from tiny import tiny_config

import mdfl_jax
from mdfl_jax.config.resolve import all_fields, default_config, resolve
from mdfl_jax.config.sections import families, flat
from mdfl_jax.core import own_files
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import fields_of
from mdfl_jax.storage.disk import plain
from mdfl_jax.study import identity, make_study
from mdfl_jax.study.identity import GROWS, RESULTS, SWITCHES, name_run, of_dataset

DEFAULTS = Path(__file__).with_name("defaults.json")
"""The defaults of all fields on which runs depend, and the version of the numbers for which they were written."""

NO_NUMBER = {
    *("labels", "data.categories"),  # the data are told by their content
    *("name", "title", "baseline", "target", "loggers", "select", "select_by", "x_axis", "data.dir", "trace.made_by"),
    *(
        f"engine.{name}"
        for name in ("runs_per_batch", "memory_mib", "checkpoint_minutes", "states_mib", "on_full_disk")
    ),
}
"""The fields that change no number of a run."""


def defaults_now():
    """The defaults of all fields, and of the numbers of all members as FAMILY MEMBER.NUMBER."""
    fields = plain(flat(default_config().to_dict()))
    found = {path: fields[path] for path in sorted(fields) if path not in identity.not_in_runs()}
    for family in families():
        for member in family.registry:
            if family.registry.member(member).home:
                of = fields_of(family.registry.numbers(member))
                found |= {f"{family.registry.kind} {member}.{name}": field.default for name, field in of.items()}
    return plain(found)


def names(**changes):
    """The names of the runs of a tiny study, by point."""
    return make_study(tiny_config(**{"seeds": 1} | changes)).names


def with_other(experiment, path):
    """The experiment with another value in one field, which need not be a valid one."""
    section, _, name = path.rpartition(".")
    owner = getattr(experiment, section) if section else experiment
    before = getattr(owner, name)
    number = 0 if before is None or isinstance(before, str) else before
    known = all_fields()[path].metadata.get("names") or ()
    known = [member for member in (known() if callable(known) else known) if member != before]
    value = (
        known[-1]
        if known
        else {bool: not before, int: 7 if number != 7 else 8, float: 0.125, str: "other"}.get(
            all_fields()[path].type, (1, 2)
        )
    )
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


def test_fields_keep_the_defaults_that_runs_of_earlier_versions_had():
    """Whoever changes a default raises `RESULTS` and runs this file, which writes defaults.json anew."""
    then, now = json.loads(DEFAULTS.read_text()), defaults_now()
    kept = {path: default for path, default in then["defaults"].items() if path in now}
    assert {"results": RESULTS, **{path: now[path] for path in kept}} == {"results": then["results"], **kept}


def test_a_field_that_is_new_and_has_its_default_changes_no_name(monkeypatch):
    experiment = resolve(tiny_config())
    own, then = name_run(experiment, {}, {}), identity.run_config(experiment)
    assert {"attack.name", "algorithm.aggregation"} < set(then)
    new = ("attack.", "algorithm.aggregation", "algorithm.proximal")
    assert then["algorithm.proximal"] == 0  # a number of a member
    before = {path: value for path, value in then.items() if not path.startswith(new)}
    monkeypatch.setattr(identity, "run_config", lambda experiment: before)
    assert name_run(experiment, {}, {}) == own
    monkeypatch.setattr(identity, "RESULTS", RESULTS + 1)
    assert name_run(experiment, {}, {}) != own


def test_seed_and_rounds_stand_beside_the_digest():
    (runs,) = names(seeds=2, first_seed=3, rounds=6)
    (fewer,) = names(seeds=1, first_seed=4, rounds=2)
    assert [run.rpartition("-s")[2] for run in runs] == ["3-r6", "4-r6"]
    assert fewer == [runs[1].removesuffix("6") + "2"]


def test_the_order_and_the_names_of_the_points_are_no_part_of_it():
    sweep = "network.mobility=static,dcm; algorithm.lr=0.1,0.2"
    first = names(sweep=sweep)
    assert names(sweep="algorithm.lr=0.2,0.1; network.mobility=dcm,static") == [first[k] for k in (3, 1, 2, 0)]
    assert names(**{"network.mobility": "dcm", "algorithm.lr": 0.2}) == [first[3]]
    assert names(sweep="network.mobility+algorithm.lr=dcm+0.2") == [first[3]]
    assert len({run for (run,) in first}) == 4


def own_data(folder, seed=0):
    draw = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    sets = {f"x_{part}": draw.integers(0, 256, (n, 4, 4), np.uint8) for part, n in (("train", 60), ("test", 20))}
    labels = {f"y_{part}": np.arange(n) % 3 for part, n in (("train", 60), ("test", 20))}
    np.savez(folder / "images.npz", **sets, **labels)
    return {"data.name": "images", "data.dir": str(folder), "data.limit_train": 0, "data.limit_test": 0}


def test_data_are_told_by_their_content(tmp_path):
    first = names(**own_data(tmp_path / "a"))
    assert names(**own_data(tmp_path / "b")) == first  # of another folder
    assert names(**own_data(tmp_path / "a", seed=1)) != first


@pytest.mark.long
def test_a_finished_study_is_not_read_as_that_of_other_data(tmp_path):
    config = {"rounds": 2, "eval_every": 2, "seeds": 1, "model.name": "linear", **own_data(tmp_path)}
    mdfl_jax.run(config, tmp_path / "run", progress=False)
    mdfl_jax.run(config, tmp_path / "run", progress=False)
    own_data(tmp_path, seed=1)
    with pytest.raises(UserError, match=r"data\.name=images has changed"):
        mdfl_jax.run(config, tmp_path / "run", progress=False)


def test_the_digest_of_a_data_set_is_that_of_its_samples(tiny):
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


def test_own_files_are_the_same_from_another_folder(tmp_path, monkeypatch):
    for name, text in {"a/rule.py": "1", "b/rule.py": "2", "b/other.py": "3"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in ("a/rule.py", "b/rule.py", "b/other.py")]
    monkeypatch.chdir(tmp_path)
    found = own_files.digests([*files, "/absent.py"])
    monkeypatch.chdir(tmp_path / "a")
    assert own_files.digests(files[::-1]) == found
    assert found.keys() == {"rule.py", "other.py"}
    (tmp_path / "a" / "rule.py").write_text("4")
    assert own_files.digests(files)["rule.py"] != found["rule.py"]
    assert own_files.digests(files)["other.py"] == found["other.py"]
    assert own_files.digests(files[:1])["rule.py"] == own_files.digest_of(files[0])


FILES = {
    "graph.file": ({"network.graph": "file"}, "\n".join(f"{i},{(i + 1) % 6}" for i in range(6)), "\n0,3"),
    "data.table": ({"data.partition": "table"}, "owner\n" + "\n".join(str(i % 6) for i in range(120)), "\n"),
    "trace.file": (
        {"network.mobility": "trace", "trace.at_end": "hold"},
        "time,id,x,y\n" + "\n".join(f"{t},v{i},{10 * i + t},{t}" for t in range(9) for i in range(6)),
        "\n9,v0,12,12",
    ),
}


@pytest.mark.parametrize("field", FILES)
def test_a_file_may_be_moved_and_renamed_but_not_changed(tmp_path, field):
    changes, text, more = FILES[field]
    (tmp_path / "file.csv").write_text(text)
    first = names(**changes, **{field: str(tmp_path / "file.csv")})
    (tmp_path / "moved").mkdir()
    moved = (tmp_path / "file.csv").rename(tmp_path / "moved" / "renamed.csv")
    assert names(**changes, **{field: str(moved)}) == first
    moved.write_text(text + more)
    assert names(**changes, **{field: str(moved)}) != first


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
    for name, text in {
        "rule": RULE,
        "own_helper": "from own_numbers import VALUE",
        "own_numbers": "VALUE = 2.0",
    }.items():
        (folder / f"{name}.py").write_text(text)
    go(tmp_path / "run", **{"seeds": 1, "rounds": 2, "use": str(folder / "rule.py")})
    first = names(use=str(folder / "rule.py"))
    monkeypatch.chdir(folder)
    assert names(use="rule.py") == first
    for name in ("own_numbers", "own_helper", "rule"):
        path = folder / f"{name}.py"
        before = path.read_text()
        path.write_text(before + "\n# changed")
        with pytest.raises(UserError, match=rf"own_files\.{name}\.py is '\w+' there and '\w+' here"):
            go(tmp_path / "run", **{"seeds": 1, "rounds": 2, "use": str(folder / "rule.py")})
        path.write_text(before)
    (folder / "unused.py").write_text("1")
    assert names(use=str(folder / "rule.py")) == first


def test_the_switches_of_jax_that_change_random_numbers_are_a_part_of_it(tmp_path):
    go(tmp_path, seeds=1, rounds=2)
    others = {"jax_default_prng_impl": "rbg", "jax_random_seed_offset": 1}
    for name in SWITCHES:
        before = getattr(jax.config, name)
        try:
            jax.config.update(name, others.get(name, not before))
            with pytest.raises(UserError, match=rf"switches\.{name} is .* there and .* here; choose another folder"):
                go(tmp_path, seeds=2, rounds=2)
        finally:
            jax.config.update(name, before)
    assert go(tmp_path, seeds=1, rounds=2)[1]


if __name__ == "__main__":
    DEFAULTS.write_text(json.dumps({"results": RESULTS, "defaults": defaults_now()}, indent=1) + "\n")
