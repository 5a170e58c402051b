"""Whether a study is the one that is there: which fields tell, and where an older version made it."""

import copy

import pytest

from mdfl_jax.config.resolve import all_fields
from mdfl_jax.core.errors import UserError
from mdfl_jax.storage.disk import plain, write_json
from mdfl_jax.study import make_study
from mdfl_jax.study import workdir as workdirs
from mdfl_jax.study.identity import GROWS, compare
from mdfl_jax.study.manifest import wanted


@pytest.mark.parametrize(("size", "is_same"), [(0, True), (None, True), (2, False)])
def test_a_number_that_a_member_has_gained_had_its_default_before(tiny, size, is_same):
    """An older version knew no `samples_per_client` of this partition, so it dealt out all samples."""
    partition = {"data.partition": "dirichlet_per_client"}
    there = copy.deepcopy(plain(wanted(make_study(tiny(**partition)))))
    assert there["points"][0]["numbers"].pop("data.samples_per_client") == 0
    here = tiny(**partition)
    here.data.samples_per_client = size
    assert compare(there, plain(wanted(make_study(here)))).is_same == is_same


NO_NUMBER = {
    *("name", "title", "baseline", "target", "loggers", "select", "select_by", "x_axis", "data.dir", "trace.made_by"),
    *(
        f"engine.{name}"
        for name in ("runs_per_batch", "memory_mib", "checkpoint_minutes", "states_mib", "on_full_disk")
    ),
}
"""The fields that change no number of a run: a study that is there goes on, or is written anew, with other values."""


@pytest.fixture(scope="module")
def manifest(tiny):
    return plain(wanted(make_study(tiny())))


def with_other(manifest, path):
    """The manifest of a study with another value in one field; returns it with the values (there, here)."""
    here, kind = copy.deepcopy(manifest), all_fields()[path].type
    *sections, name = path.split(".")
    section = here["config"][sections[0]] if sections else here["config"]
    before = section[name]
    number = 0 if before is None else before
    section[name] = {bool: not before, int: 7 if number != 7 else 8, float: 0.125, str: "other.py"}.get(kind, [1, 2])
    for point in here["points"]:
        if path in point["numbers"]:
            point["numbers"][path] = section[name]
    first = here["config"]["first_seed"]
    here["seeds"] = list(range(first, first + here["config"]["seeds"]))
    return here, (before, section[name])


def held(folder, manifest, status):
    """A workdir with a finished or an unfinished study."""
    (folder / "checkpoints").mkdir(parents=True)
    write_json(folder / "config.json", {**manifest, "name": "tiny", "status": status})
    return folder


@pytest.mark.parametrize("status", ["running", "finished"])
def test_every_field_tells_studies_apart_or_changes_no_number(manifest, tmp_path, status):
    """Also where the study is not finished; and the field is named with both values."""
    folder = held(tmp_path / "run", manifest, status)
    for path in sorted(set(all_fields()) - {"sweep"}):  # it is told by its points
        here, (there_is, here_is) = with_other(manifest, path)
        said = f"{path} is {there_is!r} there and {here_is!r} here"
        if path in NO_NUMBER:
            found = workdirs.inspect_workdir(folder, here)
            assert (found.goes_on, found.is_finished) == (status == "running", status == "finished")
            assert [str(field) for field in found.compared.others] == [said]
            continue
        with pytest.raises(UserError) as error:
            workdirs.inspect_workdir(folder, here)
        assert f"it holds another study (tiny): {said}; " in str(error.value)
        assert ("add --extend" in str(error.value)) == (path in ("seeds", "rounds"))


def test_the_fields_that_change_no_number_are_declared_so():
    assert {path for path, field in all_fields().items() if not field.metadata.get("in_runs", True)} == NO_NUMBER
    assert not NO_NUMBER.intersection(GROWS)


def test_several_fields_are_all_named_and_those_that_change_no_number_are_not(manifest, tmp_path):
    here = copy.deepcopy(manifest)
    for path in ("title", "algorithm.batch_size", "network.radius", "engine.memory_mib"):
        here, _ = with_other(here, path)
    with pytest.raises(UserError) as error:
        workdirs.inspect_workdir(held(tmp_path / "run", manifest, "running"), here)
    line = str(error.value)
    assert "algorithm.batch_size is 0 there and 7 here" in line
    assert "network.radius is 3.0 there and 0.125 here" in line
    assert "title" not in line
    assert "memory_mib" not in line
