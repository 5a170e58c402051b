"""Studies that are made: their configurations and programs, and what their plan says."""

from tiny import tiny_config

from mdfl_jax.config.resolve import as_config, resolve
from mdfl_jax.study import make_study
from mdfl_jax.study.plan import plan
from mdfl_jax.study.study import expected

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


def test_programs_that_learn_the_same_have_one_copy_of_the_data():
    sweep = "algorithm.name=dpsgd,pame;algorithm.batch_size=4,8;model.name=linear,mlp"
    study = make_study(tiny_config(sweep=sweep))
    tasks = {id(group.simulation.data.x_train): None for group in study.groups}
    assert (len(study.groups), len(tasks)) == (8, 4)
    for group in study.groups:
        member, asked = study.points[group.points[0]].experiment, group.simulation.task.gradient.__self__.asked
        assert asked.batch_size == member.algorithm.batch_size
        assert bool(asked.model.widths) == (member.model.name == "mlp")


def test_links_that_no_memory_can_hold_are_estimated_and_not_counted():
    """By the area of the world: counting those of a million clients in one place takes hours."""
    crowd = {"network.num_clients": 10_000}
    on_grid = crowd | {"network.grid_size": 100, "network.radius": 3.0}
    in_plane = crowd | {"network.mobility": "gauss_markov", "network.radius": 15.0}
    assert [expected(resolve(as_config(each))) for each in (on_grid, in_plane)] == [130, 130]
    (group,) = make_study(tiny_config(**{"network.num_clients": 999_999})).groups
    assert group.simulation.num_clients == 999_999


def test_a_plan_says_what_is_equal_who_attacks_and_what_has_no_effect():
    rivals = {"sweep": "algorithm.name=dpsgd,dfedavgm,dfedsam", "algorithm.rho": 0.0}
    attacks = {"sweep": "attack.name+attack.number=+2,sign_flip+2,zero+1"}
    for changes, said, not_said in (
        (rivals, "note: algorithm.local_steps is 1, at which dfedavgm is dpsgd", "ignored"),
        (rivals, "note: algorithm.rho is 0, at which dfedsam is dpsgd", "ignored"),
        (rivals | {"algorithm.local_steps": 2, "algorithm.rho": 0.1}, "", "is dpsgd"),
        (attacks, "  1 or 2 of the clients attack (random) in 2 of the 3 points; accuracies and losses", "no effect"),
        ({"attack.number": 2}, "note: attack.number is 2; ignored: attack.name is empty", "clients attack"),
        (
            {"sweep": "network.radius=1,2", "baseline": "network.mobility=static"},
            "no differences: the sweep does not vary the field of the baseline, network.mobility=static",
            "no point has",
        ),
        (
            {"sweep": "network.radius=1,2", "baseline": "network.radius=3"},
            "no differences: no point has the baseline's network.radius=3",
            "does not vary",
        ),
    ):
        found = plan(make_study(as_config(SMALL | {"baseline": ""} | changes)))
        assert said in found
        assert not_said not in found
