"""The rule, what clients know, and the world: which of them go together, how others are refused, and who registers."""

import re
import sys

import jax
import jax.numpy as jnp
import pytest
from tiny import tiny_config

from mdfl_jax import UserError
from mdfl_jax.core.registry import Registry
from mdfl_jax.mobility import MOBILITIES
from mdfl_jax.mobility.registry import RENAMED
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.study import make_study


def test_each_name_of_earlier_versions_is_refused_with_a_movement_that_exists():
    for name, movement in RENAMED.items():
        assert MOBILITIES.form(movement)
        with pytest.raises(UserError, match=re.escape(f"in Python, Movement{tuple(movement)}")):
            spatial(6, 5, (name,))


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
