"""The rule, what clients know, and the world: which of them go together, how others are refused, and who registers."""

import re
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import pytest
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


def test_each_name_of_earlier_versions_is_refused_with_a_movement_that_exists():
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
    experiment = resolve(tiny_config(sweep=sweep, baseline="network.mobility+motion.knowledge=dcm+met"))
    assert baseline_of(experiment, found) == [4, 5] * 4
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
