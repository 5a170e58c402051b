"""Studies from Python: their configurations, arrays by point and metric, and mistakes."""

import numpy as np
import pytest
from made_study import made
from tiny import tiny_config

import mdfl_jax
from mdfl_jax.config import default_config
from mdfl_jax.config.resolve import as_config
from mdfl_jax.core.errors import UserError
from mdfl_jax.report.tables import equal_points
from mdfl_jax.study import make_study
from mdfl_jax.study.plan import plan

SMALL = {
    "sweep": "network.mobility=static,dcm",
    "baseline": "network.mobility=static",
    "seeds": 2,
    "rounds": 4,
    "eval_every": 2,
    "data": {"limit_train": 120, "limit_test": 60},
    "model.name": "linear",
    "network": {"num_clients": 6, "num_mobile": 2, "grid_size": 5},
}


def test_arrays_by_point_and_metric(tmp_path):
    results = made(tmp_path, sweep=SMALL["sweep"])
    assert results.array("accuracy", "dcm").shape == (2, 3, 6)
    np.testing.assert_array_equal(results.array("accuracy", 1), results.array("accuracy", "dcm"))
    np.testing.assert_array_equal(results.array("bits", -1), results["bits"].isel(point=1))  # the declaration's name
    for index in (2, -3):
        with pytest.raises(UserError, match=f"the point is {index}; the study has 2 sweep points, .* indices 0 to 1"):
            results.array("accuracy", index)
    with pytest.raises(UserError, match="unknown point 'dcn' \\(did you mean 'dcm'\\?\\)"):
        results.array("accuracy", "dcn")
    with pytest.raises(UserError, match="unknown metric 'acuracy'"):
        results.array("acuracy")


RIVALS = SMALL | {"sweep": "algorithm.name=dpsgd,dfedavgm,dfedsam", "baseline": "", "algorithm.rho": 0.0}


def test_rivals_that_a_number_makes_equal_are_told():
    told = plan(make_study(as_config(RIVALS)))
    assert "note: algorithm.local_steps is 1, at which dfedavgm is dpsgd" in told
    assert "note: algorithm.rho is 0, at which dfedsam is dpsgd" in told
    other = SMALL | {"sweep": "algorithm.name=dpsgd,dfedavgm", "baseline": "", "algorithm.local_steps": 2}
    assert "is dpsgd" not in plan(make_study(as_config(other)))


def test_programs_that_learn_the_same_have_one_copy_of_the_data():
    sweep = "algorithm.name=dpsgd,pame;algorithm.batch_size=4,8;model.name=linear,mlp"
    study = make_study(tiny_config(sweep=sweep))
    tasks = {id(group.simulation.data.x_train): None for group in study.groups}
    assert (len(study.groups), len(tasks)) == (8, 4)
    for group in study.groups:
        member, asked = study.points[group.points[0]].experiment, group.simulation.task.gradient.__self__.asked
        assert asked.batch_size == member.algorithm.batch_size
        assert bool(asked.model.widths) == (member.model.name == "mlp")


@pytest.mark.long
def test_they_are_equal_and_told_after_a_run():
    results = mdfl_jax.run(RIVALS)
    for name in ("dfedavgm", "dfedsam"):
        np.testing.assert_array_equal(results.array("accuracy", name), results.array("accuracy", "dpsgd"))
    assert equal_points(results.summary["points"]) == [["dpsgd", "dfedavgm", "dfedsam"]]


def test_a_plan_says_who_attacks_and_notes_only_what_no_point_reads():
    tied = SMALL | {"sweep": "attack.name+attack.number=+2,sign_flip+2,zero+1", "baseline": ""}
    told = plan(make_study(as_config(tied)))
    assert "  1 or 2 of the clients attack (random) in 2 of the 3 points; accuracies and losses" in told
    assert "it has no effect" not in told
    told = plan(make_study(as_config(SMALL | {"attack.number": 2})))
    assert "clients attack" not in told
    assert "note: attack.number is 2; it has no effect: attack.name is empty" in told


def test_a_plan_says_why_there_are_no_differences():
    told = plan(make_study(as_config(SMALL | {"sweep": "network.radius=1,2", "baseline": "network.mobility=static"})))
    assert "no differences: the sweep does not vary the field of the baseline, network.mobility=static" in told
    told = plan(make_study(as_config(SMALL | {"sweep": "network.radius=1,2", "baseline": "network.radius=3"})))
    assert "no differences: no point has the baseline's network.radius=3" in told


def test_configurations_of_every_kind_say_the_same(tmp_path):
    config = default_config()
    config.rounds, config.motion.speed_max = 40, 5.0
    path = tmp_path / "own.py"
    path.write_text(
        "from mdfl_jax.config import default_config\n"
        "def get_config(rounds='40'):\n"
        "    config = default_config()\n"
        "    config.rounds, config.motion.speed_max = int(rounds), 5.0\n"
        "    return config\n"
    )
    same = [config, {"rounds": 40, "motion": {"speed_max": 5.0}}, {"rounds": 40, "motion.speed_max": 5.0}, path]
    assert len({as_config(one).to_json() for one in same}) == 1
    assert as_config(f"{path}:60").rounds == 60


def test_a_folder_without_a_study_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"it holds no study: there is no config\.json"):
        mdfl_jax.Results.load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json: not valid JSON"):
        mdfl_jax.Results.load(tmp_path)
