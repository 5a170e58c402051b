"""A study does not go on when its data or a file that it reads has changed, and says what has changed."""

import numpy as np
import pytest

import mdfl_jax
from mdfl_jax.core import own_files
from mdfl_jax.core.errors import UserError
from mdfl_jax.storage.disk import plain, write_json
from mdfl_jax.storage.study_files import state_path
from mdfl_jax.study import make_study
from mdfl_jax.study import workdir as workdirs
from mdfl_jax.study.identity import of_dataset
from mdfl_jax.study.workdir import manifest_of


def inspected(folder, study):
    """Look at a folder that holds an unfinished study, in view of another one."""
    return workdirs.inspect_workdir(folder, plain(manifest_of(study, {})))


def started(study, folder):
    """A workdir as a study leaves it that was killed after its first states."""
    write_json(folder / "config.json", manifest_of(study, {}))
    for run in study.to_do():
        path = state_path(folder, study.name(run))
        path.parent.mkdir(exist_ok=True)
        path.touch()


def own_data(folder, seed=0):
    rng = np.random.default_rng(seed)
    arrays = {
        f"{kind}_{part}": rng.integers(0, 3 if kind == "y" else 255, (60, 4, 4) if kind == "x" else 60).astype(np.uint8)
        for part in ("train", "test")
        for kind in "xy"
    }
    np.savez(folder / "mine.npz", **arrays)
    return {"data.name": "mine", "data.dir": str(folder), "data.limit_train": 0, "data.limit_test": 0}


def test_other_samples_under_the_same_name_are_noticed(tiny, tmp_path):
    config = tiny(**own_data(tmp_path))
    study = make_study(config)
    assert list(study.inputs) == ["data.name=mine"]
    started(study, tmp_path / "run")
    assert not inspected(tmp_path / "run", make_study(config)).compared.fields
    own_data(tmp_path, seed=1)
    with pytest.raises(
        UserError, match=r"data\.name=mine has changed since the study there has begun; choose another folder, or"
    ):
        inspected(tmp_path / "run", make_study(config))


def test_every_field_that_names_a_file_is_noticed(tiny, tmp_path):
    ring = "\n".join(f"{i},{(i + 1) % 6}" for i in range(6))
    (tmp_path / "ring.csv").write_text(ring)
    (tmp_path / "owners.csv").write_text("owner\n" + "\n".join(str(i % 6) for i in range(120)))
    graph = {"network.graph": "file", "graph.file": str(tmp_path / "ring.csv")}
    table = {"data.partition": "table", "data.table": str(tmp_path / "owners.csv")}
    study = make_study(tiny(**graph, **table))
    names = ["data.name=digits", "data.table=owners.csv", "graph.file=ring.csv"]
    assert list(study.inputs) == names
    (tmp_path / "ring.csv").write_text(ring + "\n0,3\n")
    (tmp_path / "owners.csv").write_text("owner\n" + "\n".join(str(i % 5) for i in range(120)))
    changed = make_study(tiny(**graph, **table)).inputs
    assert [name for name in names if changed[name] != study.inputs[name]] == names[1:]


@pytest.mark.long
def test_a_finished_study_is_not_read_as_that_of_other_data(tmp_path):
    config = {"rounds": 2, "eval_every": 2, "seeds": 1, "model.name": "linear", **own_data(tmp_path)}
    mdfl_jax.run(config, tmp_path / "run", progress=False)
    mdfl_jax.run(config, tmp_path / "run", progress=False)
    own_data(tmp_path, seed=1)
    with pytest.raises(UserError, match=r"data\.name=mine has changed"):
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


@pytest.mark.long
@pytest.mark.usefixtures("unregistered")
def test_a_study_with_a_used_file_goes_on_from_another_folder(tiny, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    declared = "@metric('two', still=HOLDS, shape=())\ndef two(at):\n    return 2.0\n"
    (tmp_path / "here" / "two.py").write_text(f"from mdfl_jax.metrics import HOLDS, metric\n\n{declared}")
    monkeypatch.chdir(tmp_path / "here")
    started(make_study(tiny(use="two.py")), tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    study = make_study(tiny(use="here/two.py"))
    assert study.config["own_files"] == {"two.py": own_files.digest_of("here/two.py")}
    assert not inspected(tmp_path / "run", study).compared.fields
