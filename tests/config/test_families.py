"""The configuration as the members make it: one's own as keys, axes and checks."""

import pytest
import small
from tables import with_fields

from mdfl_jax.config.resolve import check_key, resolve
from mdfl_jax.config.sections import schema
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.mobility import MOBILITIES, Movement
from mdfl_jax.study import make_study

pytestmark = pytest.mark.usefixtures("unregistered")


class HopNumbers(Numbers):
    hop: float = number(2.5, "how far a client hops", above=0, at_most=100, unit="m")
    hop_twice: bool = number(False, "whether it hops again")

    def check(self, setting):
        if self.hop > setting.width:
            raise UserError(f"motion.hop is {self.hop:g}; {setting.member} needs it below motion.width")

    def notes(self, setting):
        return ["motion.hop_twice is true; that is far"] if self.hop_twice else []


def add_rule(numbers=HopNumbers, name="hopping"):
    MOBILITIES.register(name, numbers)(lambda: MOBILITIES.form(Movement("static", world="plane")).make())


def told(config):
    return small.told(make_study, config)


def test_a_number_of_ones_own_is_a_key_and_an_axis_with_bounds(tiny):
    path, use = "motion.hop", {"network.mobility": "hopping"}
    with pytest.raises(UserError, match=f"unknown config key '{path}'"):
        check_key(path)
    add_rule()
    assert check_key(path).metadata["own"] == ["hopping"]
    for config in (tiny(**use, **{path: 7.5}), with_fields(tiny(**use), {path: "7.5"})):
        assert resolve(config).motion.hop == 7.5
    assert resolve(tiny(**use)).motion.hop is None
    for config in (tiny(**use, **{path: 0.0}), tiny(**{path: 0.0})):  # whichever member is in use
        assert told(config) == f"{path} is 0.0; it must be greater than 0 and at most 100"
    study = make_study(tiny(**use, sweep=f"{path}=1,7.5"))
    assert (len(study.points), len(study.groups)) == (2, 1)
    assert [point.experiment.motion.hop for point in study.points] == [1, 7.5]


def test_a_number_of_another_type_is_refused():
    class CountNumbers(Numbers):
        hop: int = number(2, "hops in a round", at_least=0)

    add_rule()
    add_rule(CountNumbers, "counting")
    other = "its number 'hop' has another type than that of 'counting'; choose another name"
    assert small.told(schema) == f"mobility 'hopping': {other}"


def test_bounds_and_checks_are_those_of_the_members_in_use(tiny):
    """A number of several members: a value that one of them takes is refused where another is in use."""

    class WideNumbers(Numbers):
        hop: float = number(500.0, "far hops", at_least=200, at_most=900)

    add_rule()
    add_rule(WideNumbers, "leaping")
    own = {"network.mobility": "hopping", "motion.hop": 300.0}
    assert told(tiny(**own)) == "motion.hop is 300.0; it must be greater than 0 and at most 100"
    assert told(tiny(**{**own, "network.mobility": "leaping", "motion.hop": 90.0})) == (
        "motion.hop is 90.0; it must be at least 200 and at most 900"
    )
    for mobility, hop in (("leaping", 300.0), ("hopping", 90.0), ("dcm", 300.0), ("dcm", 90.0)):
        make_study(tiny(**{"network.mobility": mobility, "motion.hop": hop}))
    line = told(tiny(sweep="network.mobility=hopping,leaping", **{"motion.hop": 90.0}))
    assert line == "sweep, point 'leaping': motion.hop is 90.0; it must be at least 200 and at most 900"
    # A member's check sees the rest of the configuration, and is asked where the member is in use.
    narrow = {"motion.width": 10.0, "motion.hop": 50.0}
    assert told(tiny(**{"network.mobility": "hopping", **narrow})) == (
        "motion.hop is 50; hopping needs it below motion.width"
    )
    make_study(tiny(**{"network.mobility": "dcm", **narrow}))
