"""A study that grew by seeds, sweep points and rounds equals one that was run at once, to the bit."""

import json
import shutil

import pytest

from mdfl_jax.core.errors import UserError
from mdfl_jax.study import Interrupted, make_study
from mdfl_jax.study.run import run_or_resume

# A group has one program, of which each device has several runs of a batch: a loop of one run would be unrolled.
STUDY = {
    "sweep": "network.mobility=static,dcm",
    "baseline": "network.mobility=static",
    "seeds": 3,
    "save": "best",
    "algorithm.batch_size": 4,
    "algorithm.momentum": 0.9,
    "engine.runs_per_batch": 24,
}
LESS = STUDY | {"sweep": "network.mobility=dcm", "seeds": 18, "rounds": 2}
MORE = STUDY | {"seeds": 20, "rounds": 4}


def go(config, folder, extend=True, on_evaluation=None, log=lambda line: None):
    return run_or_resume(
        make_study(config), folder, log=log, progress=False, on_evaluation=on_evaluation, extend=extend
    )


def assert_same(folder, expected):
    """Byte-equal arrays, lines and models, an equal summary without seconds, and no trace of the extension."""
    names = sorted(path.relative_to(expected) for path in expected.rglob("*"))
    assert sorted(path.relative_to(folder) for path in folder.rglob("*")) == names
    for name in names:
        if name.suffix in (".npz", ".jsonl", ".safetensors") and name.parent.name != "states":
            assert (folder / name).read_bytes() == (expected / name).read_bytes(), name
    ours, theirs = (json.loads((of / "summary.json").read_text()) for of in (folder, expected))
    for point in (*ours["points"], *theirs["points"]):
        del point["compile_seconds"], point["run_seconds"]
    assert ours == theirs
    ours, theirs = (json.loads((of / "config.json").read_text()) for of in (folder, expected))
    for entry in ("config", "points", "seeds", "runs_per_batch", "status"):
        assert ours[entry] == theirs[entry], entry


@pytest.fixture(scope="module")
def finished(tiny, tmp_path_factory):
    """A study that was run at once, and the smaller one from which others grow."""
    folder = tmp_path_factory.mktemp("studies")
    go(tiny(**MORE), folder / "more")
    go(tiny(**LESS), folder / "less")
    return folder


@pytest.fixture
def less(finished, tmp_path):
    shutil.copytree(finished / "less", tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.long
def test_seeds_points_and_rounds_are_added_together(tiny, finished, less):
    told = []
    summary, was_finished = go(tiny(**MORE), less, log=told.append)
    assert not was_finished
    assert told == [f"18 runs in {less} go on from round 2 to 4", f"22 runs are added to the 18 in {less}"]
    assert [len(point["final_accuracy"]["per_seed"]) for point in summary["points"]] == [20, 20]
    assert_same(less, finished / "more")
    assert go(tiny(**MORE), less, extend=False)[1]


@pytest.mark.long
@pytest.mark.parametrize("at", [1, 3])
def test_a_stopped_extension_loses_nothing_and_goes_on(tiny, finished, less, at):
    seen = []

    def stop(info):
        seen.append(info.round)
        return len(seen) == at

    before = {path.name: path.read_bytes() for path in less.iterdir() if path.is_file()}
    with pytest.raises(Interrupted):
        go(tiny(**MORE), less, on_evaluation=stop)
    assert {path.name: path.read_bytes() for path in less.iterdir() if path.is_file()} == before
    assert go(tiny(**LESS), less, extend=False)[1]  # the study there is still whole
    go(tiny(**MORE), less)
    assert_same(less, finished / "more")


@pytest.mark.long
def test_a_kill_while_the_files_take_their_places_is_mended(tiny, finished, less, monkeypatch):
    moves = []

    def move(workdir):
        """The first files are moved, and then the process is killed."""
        result = workdir / "publishing" / "result"
        for path in sorted(result.iterdir())[:2]:
            path.replace(workdir / path.name)
            moves.append(path.name)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mdfl_jax.study.whole.publish", move)
        with pytest.raises(KeyboardInterrupt):
            go(tiny(**MORE), less)
    assert moves == ["config.json", "history.npz"]
    assert go(tiny(**MORE), less, extend=False)[1]
    assert_same(less, finished / "more")


@pytest.mark.long
def test_fields_on_which_no_run_depends_change_without_a_run(tiny, less, monkeypatch):
    arrays, told = (less / "history.npz").read_bytes(), []
    monkeypatch.setattr("mdfl_jax.study.run.run_study", None)
    changed = {"title": "New", "target": 0.1, "engine.checkpoint_minutes": 1.0}
    summary, was_finished = go(tiny(**LESS | changed), less, extend=False, log=told.append)
    assert was_finished
    assert summary["target"] == 0.1
    assert "target is 0.3 there and 0.1 here, title is '' there and 'New' here" in told[0]
    assert json.loads((less / "config.json").read_text())["title"] == "New"
    assert (less / "history.npz").read_bytes() == arrays
    go(tiny(**LESS | changed), less, extend=False, log=told.append)
    assert len(told) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "extend", "told"),
    [
        ({}, False, "rounds is 2 there and 4 here, seeds is 18 there and 20 here, .*; choose another, add --extend to"),
        (
            {"network.radius": 2.0, "data.alpha": 0.3},
            True,
            r"data\.alpha is None there and 0\.3 here, network\.radius is 3\.0 there and 2\.0 here; --extend only",
        ),
        (
            {"seeds": 4},
            True,
            r"seeds is 18 there and 4 here.*; --extend only adds runs and rounds; choose another, or add --overwrite$",
        ),
        ({"algorithm.lr_schedule": "cosine"}, True, "algorithm.lr_schedule is 'constant' there and 'cosine' here"),
    ],
)
def test_what_cannot_grow_is_told_by_its_fields(tiny, less, changes, extend, told):
    before = sorted(path.name for path in less.iterdir())
    with pytest.raises(UserError, match=told) as caught:
        go(tiny(**MORE | changes), less, extend=extend)
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in less.iterdir()) == before


@pytest.mark.long
def test_rounds_are_refused_where_the_first_ones_depend_on_them(tiny, tmp_path):
    few = {"seeds": 2, "rounds": 2, "algorithm.lr_schedule": "cosine"}
    go(tiny(**few), tmp_path / "run")
    with pytest.raises(UserError, match="rounds cannot be added, since the first ones of point 'base' depend on the"):
        go(tiny(**few | {"rounds": 4}), tmp_path / "run")
    go(tiny(**few | {"seeds": 3}), tmp_path / "run")  # seeds can be added
    assert not (tmp_path / "run" / "extension").exists()
