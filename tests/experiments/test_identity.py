"""Whether a study is the one that is there, where an older version made it."""

import copy
import json

import pytest

from mdfl_jax.experiments import make_study
from mdfl_jax.experiments.results.files import plain
from mdfl_jax.experiments.results.identity import compare, state_names
from mdfl_jax.experiments.run.manifest import wanted
from mdfl_jax.experiments.run.resume import run_or_resume


@pytest.mark.parametrize(("size", "is_same"), [(0, True), (None, True), (2, False)])
def test_a_number_that_a_member_has_gained_had_its_default_before(tiny, size, is_same):
    """An older version knew no `samples_per_client` of this partition, so it dealt out all samples."""
    partition = {"data.partition": "dirichlet_per_client"}
    there = copy.deepcopy(plain(wanted(make_study(tiny(**partition)))))
    assert there["points"][0]["numbers"].pop("data.samples_per_client") == 0
    here = tiny(**partition)
    here.data.samples_per_client = size
    assert compare(there, plain(wanted(make_study(here)))).is_same == is_same


@pytest.mark.long
@pytest.mark.parametrize("more", [{"rounds": 4}, {"seeds": 2}])
def test_a_study_of_a_version_that_knew_fewer_fields_grows(tiny, tmp_path, more):
    """Its last states are named after the fields that it knew; afterwards they have the names of this version."""
    folder, less = tmp_path / "run", {"seeds": 1, "rounds": 2, "eval_every": 2}

    def go(folder, **changes):
        run_or_resume(make_study(tiny(**less | changes)), folder, log=lambda line: None, progress=False, extend=True)

    def states():
        names = state_names(json.loads((folder / "config.json").read_text()))
        return sorted(path.name for path in (folder / "states").iterdir()), names[0]

    go(folder)
    (now,), name = states()
    manifest = json.loads((folder / "config.json").read_text())
    del manifest["config"]["vary"]
    (older,) = state_names(manifest)
    assert now == f"{name}-0.npz" != f"{older}-0.npz"
    (folder / "config.json").write_text(json.dumps(manifest))
    (folder / "states" / now).rename(folder / "states" / f"{older}-0.npz")
    go(folder, **more)
    found, name = states()
    assert found == [f"{name}-{seed}.npz" for seed in range(more.get("seeds", 1))]
    go(tmp_path / "at_once", **more)
    assert (folder / "history.npz").read_bytes() == (tmp_path / "at_once" / "history.npz").read_bytes()
