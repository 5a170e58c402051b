"""The rule, what clients know, and the world: which of them go together, how others are refused, and who registers."""

import re
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import pytest
from small import told
from tiny import tiny_config

from mdfl_jax import UserError
from mdfl_jax.config.points import baseline_of, points, program_key
from mdfl_jax.config.resolve import resolve
from mdfl_jax.config.sections import effective, setting_of
from mdfl_jax.core.numbers import number
from mdfl_jax.core.registry import Registry
from mdfl_jax.mobility import MOBILITIES, Movement
from mdfl_jax.mobility.choosing import StrategyNumbers, best
from mdfl_jax.mobility.registry import RENAMED, strategy
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.study import make_study

BOTH = ({"grid", "plane"}, {"oracle", "met"})
FORMS = {  # rule: (its worlds, what its clients may know); no knowledge: the field has no effect
    **dict.fromkeys(
        ("age_aware", "coordinated", "dam", "dcm", "dcm_weighted", "learnt", "spectral", "staleness"), BOTH
    ),
    "waiting": ({"grid", "plane"}, {"oracle", "met", "explored"}),
    "cover_tour": ({"grid", "plane"}, {"oracle"}),
    "coverage": ({"grid", "plane"}, {""}),
    "static": ({"grid", "plane", "trace"}, {""}),
    **dict.fromkeys(("random_movement", "waypoint"), ({"grid"}, {""})),
    **dict.fromkeys(
        ("random_walk", "random_waypoint", "random_direction", "gauss_markov", "levy_walk", "manhattan", "patrol"),
        ({"plane"}, {""}),
    ),
    "group": ({"plane"}, {""}),
    "trace": ({"trace"}, {""}),
    "contacts": ({"contacts"}, {""}),
}


def test_which_worlds_and_knowledge_each_rule_has():
    assert {*MOBILITIES} == {*FORMS}
    for name, (worlds, knowledge) in FORMS.items():
        found = {(form.world, form.knowledge) for form in MOBILITIES.forms(name)}
        assert found == {(world, known) for world in worlds for known in knowledge}
        assert all(form.make().world == form.world for form in MOBILITIES.forms(name))


WORLD, KNOWLEDGE = "network.world", "motion.knowledge"
REFUSED = [
    ("waypoint", {WORLD: "plane"}, "network.world is plane; with network.mobility waypoint it must be grid"),
    ("dcm", {WORLD: "trace"}, "network.world is trace; with network.mobility dcm it must be grid or plane"),
    ("dcm", {WORLD: "moon"}, "network.world: unknown world 'moon'; known: auto, contacts, grid, plane, trace"),
    (
        "dcm",
        {KNOWLEDGE: "explored"},
        "motion.knowledge is explored; with network.mobility dcm it must be oracle or met",
    ),
    ("cover_tour", {KNOWLEDGE: "met"}, "motion.knowledge is met; with network.mobility cover_tour it must be oracle"),
    (
        "dcm",
        {KNOWLEDGE: "mt"},
        "motion.knowledge: unknown knowledge 'mt' (did you mean 'met'?); known: explored, met",
    ),
    ("dcm_met", {}, "network.mobility: mobility dcm_met is now network.mobility=dcm, motion.knowledge=met; in Python"),
    ("static_trace", {}, "network.mobility: mobility static_trace is now network.mobility=static, network.world=trace"),
]


@pytest.mark.parametrize(("rule", "changes", "expected"), REFUSED)
def test_what_does_not_go_together_is_refused_in_one_line(rule, changes, expected):
    assert told(lambda: resolve(tiny_config(**{"network.mobility": rule} | changes))).startswith(expected)


def test_each_name_of_earlier_versions_is_refused_with_a_movement_that_exists():
    assert len(RENAMED) == 28
    for name, movement in RENAMED.items():
        assert MOBILITIES.form(movement)
        with pytest.raises(UserError, match=re.escape(f"in Python, Movement{tuple(movement)}")):
            spatial(6, 5, (name,))


def test_a_rule_without_use_for_knowledge_takes_any():
    made = resolve(tiny_config(**{"network.mobility": "random_movement", "motion.knowledge": "met"}))
    assert effective(made)["network.world"] == "grid"
    assert effective(resolve(tiny_config(**{"network.mobility": "group"})))["network.world"] == "plane"


def test_numbers_are_those_of_the_form():
    has = lambda **changes: set(effective(resolve(tiny_config(**{"network.mobility": "dcm"} | changes))))  # noqa: E731
    met, speed = "motion.warm_up_met", "motion.speed_min"
    assert not {met, speed} & has()
    assert {met, speed} & has(**{"motion.knowledge": "met"}) == {met}
    assert {met, speed} & has(**{"network.world": "plane"}) == {speed}
    assert {met, speed} <= has(**{"network.world": "plane", "motion.knowledge": "met"})


def test_points_that_differ_in_rule_and_knowledge_share_a_program_and_have_one_baseline():
    sweep = "network.mobility+motion.knowledge=static+oracle,dcm+oracle,dcm+met,waiting+explored; network.radius=2,3"
    experiment = resolve(tiny_config(sweep=sweep, baseline="network.mobility=dcm"))
    found = points(experiment)
    assert len({program_key(point.experiment) for point in found}) == 1
    assert baseline_of(experiment, found) == [2, 3] * 4
    auto, named = (resolve(tiny_config(**{"network.mobility": "dcm", "network.world": w})) for w in ("auto", "grid"))
    assert program_key(auto) == program_key(named)


def test_a_file_in_a_home_registers_its_members(tmp_path, monkeypatch):
    """Of several homes, all modules are imported at the first look-up, and not before it."""
    for home, member in (("first_home", "one"), ("second_home", "two")):
        (tmp_path / home).mkdir()
        (tmp_path / home / "__init__.py").touch()
        (tmp_path / home / f"{member}.py").write_text(
            f"from family import FAMILY\n\nFAMILY.register('{member}')(len)\n"
        )
    made = "FAMILY = Registry('member', home=('first_home', 'second_home'))"
    (tmp_path / "family.py").write_text(f"from mdfl_jax.core.registry import Registry\n\n{made}\n")
    monkeypatch.syspath_prepend(tmp_path)
    from family import FAMILY

    assert isinstance(FAMILY, Registry)
    assert "first_home.one" not in sys.modules
    assert list(FAMILY) == ["one", "two"]


def test_threads_that_look_up_at_the_same_time_find_all_members(tmp_path, monkeypatch):
    """A thread that comes while another imports the members waits for them."""
    (tmp_path / "slow_home").mkdir()
    (tmp_path / "slow_home" / "__init__.py").touch()
    begin = "import time\n\nfrom slow_family import FAMILY\n\n"
    for k in range(3):
        (tmp_path / "slow_home" / f"m{k}.py").write_text(f"{begin}time.sleep(0.1)\nFAMILY.register('m{k}')(len)\n")
    made = "FAMILY = Registry('member', home='slow_home')"
    (tmp_path / "slow_family.py").write_text(f"from mdfl_jax.core.registry import Registry\n\n{made}\n")
    monkeypatch.syspath_prepend(tmp_path)
    from slow_family import FAMILY

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: list(FAMILY), range(4)))
    assert found == [["m0", "m1", "m2"]] * 4


@pytest.mark.usefixtures("unregistered")
def test_a_strategy_of_ones_own_has_every_world_and_knowledge():
    from mdfl_jax.mobility import Sight, best, strategy

    @strategy("nearest", everywhere=True)
    def nearest(key: jax.Array, sight: Sight) -> jax.Array:
        """Nearest: to the nearest place with a client in range."""
        return best(key, jnp.where(sight.near(sight.known.astype(float)) > 0, -sight.travel, -jnp.inf), sight)

    assert MOBILITIES.doc("nearest") == "Nearest: to the nearest place with a client in range."
    assert MOBILITIES.origin("nearest") == __file__
    config = tiny_config(sweep="network.mobility=nearest; motion.knowledge=oracle,met; network.world=grid,plane")
    assert len(make_study(config).groups) == 2
    MOBILITIES.remove("nearest")
    with pytest.raises(UserError, match="unknown mobility 'nearest'"):
        MOBILITIES.forms("nearest")


class Ordered(StrategyNumbers):
    low: float = number(0.0, "smallest")
    high: float = number(1.0, "largest")

    def check(self, setting):
        super().check(setting)
        if self.low > self.high:
            raise UserError("motion.low is above motion.high")


def test_a_strategy_checks_its_own_numbers_in_every_world(unregistered):
    strategy("ordered", Ordered)(lambda sight, key: best(sight, -sight.distance, key))
    setting = setting_of(resolve(tiny_config()), "ordered")
    for world in ("grid", "plane"):
        numbers = MOBILITIES.form(Movement("ordered", "oracle", world)).numbers
        numbers().check(setting)
        with pytest.raises(UserError, match=r"motion\.low is above"):
            numbers(low=2.0, high=1.0).check(setting)


def test_a_baseline_can_name_what_movers_know():
    tied = "network.mobility+motion.knowledge=dcm+oracle,dcm+met,static+oracle"
    config = tiny_config(sweep=tied, baseline="network.mobility+motion.knowledge=dcm+met")
    experiment = resolve(config)
    assert baseline_of(experiment, points(experiment)) == [1, 1, 1]
