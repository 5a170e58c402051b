"""The configuration as the members make it: one's own as keys, axes and checks; what None stands for."""

import numpy as np
import pytest
import small
from tables import with_fields

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.algorithms.local import CompressedNumbers, LocalNumbers
from mdfl_jax.algorithms.registry import ignored_by, numbers_of, register
from mdfl_jax.config import default_config
from mdfl_jax.config.checks import UNUSED, notes
from mdfl_jax.config.points import group_points, points
from mdfl_jax.config.resolve import all_fields, check_key, check_value, resolve
from mdfl_jax.config.sections import (
    algorithm_numbers,
    families,
    schema,
)
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import Numbers, fields_of, kinds_of, number
from mdfl_jax.exchange.compressors import COMPRESSORS
from mdfl_jax.mobility import MOBILITIES, Movement
from mdfl_jax.mobility.registry import movement_of
from mdfl_jax.study import make_study
from mdfl_jax.study.study import hparams_of

pytestmark = pytest.mark.usefixtures("unregistered")


class HopNumbers(Numbers):
    hop: float = number(2.5, "how far a client hops", above=0, at_most=100, unit="m")
    hop_twice: bool = number(False, "whether it hops again")

    def check(self, setting):
        if self.hop > setting.width:
            raise UserError(f"motion.hop is {self.hop:g}; {setting.member} needs it below motion.width")

    def notes(self, setting):
        return ["motion.hop_twice is true; that is far"] if self.hop_twice else []


class CarefulNumbers(LocalNumbers):
    care: int = number(3, "how careful", at_least=1, at_most=9)
    parts: int = number(2, "of a program", static=True, at_least=1)


class HalfNumbers(Numbers):
    half: float = number(0.5, "of a message", at_least=0, at_most=1)


def add_rule(numbers=HopNumbers, name="hopping"):
    MOBILITIES.register(name, numbers)(lambda: MOBILITIES.form(Movement("static", world="plane")).make())


def add_algorithm(numbers=CarefulNumbers, name="careful"):
    register(name, numbers)(lambda settings: dpsgd(settings))


def add_compressor():
    COMPRESSORS.register("halved", HalfNumbers, "A half.")(COMPRESSORS["identity"])


def told(config):
    return small.told(make_study, config)


def test_every_number_of_every_member_is_a_field_of_its_section():
    fields = all_fields()
    own = {path for path, field in fields.items() if "own" in field.metadata}
    wanted = set()
    for family in families():
        for member in family.registry:
            kinds = kinds_of(family.registry.numbers(member))
            for name, declared in fields_of(family.registry.numbers(member)).items():
                field = fields[f"{family.section}.{name}"]
                assert member in field.metadata["own"]
                assert declared.metadata in field.metadata["declared"]
                assert (field.type, field.default) == (kinds[name], None)
                assert field.metadata["traced"] == declared.metadata["traced"]
                wanted.add(f"{family.section}.{name}")
    assert own == wanted
    assert {"motion.speed_max", "algorithm.levels", "graph.degree", "server.interval", "model.widths"} <= own
    assert not {path for path in fields if path.startswith("engine.")} & own


@pytest.mark.parametrize(
    ("add", "path", "use", "value", "bad", "expected"),
    [
        (add_rule, "motion.hop", {"network.mobility": "hopping"}, 7.5, 0.0, "greater than 0 and at most 100"),
        (add_algorithm, "algorithm.care", {"algorithm.name": "careful"}, 7, 10, "at least 1 and at most 9"),
        (
            *(add_compressor, "algorithm.half", {"algorithm.name": "choco", "algorithm.compressor": "halved"}),
            *(0.25, 1.5, "at least 0 and at most 1"),
        ),
    ],
)
def test_a_number_of_ones_own_is_a_key_and_an_axis_with_bounds(tiny, add, path, use, value, bad, expected):
    with pytest.raises(UserError, match=f"unknown config key '{path}'"):
        check_key(path)
    add()
    section, name = path.split(".")
    assert check_key(path).metadata["own"] == [[*use.values()][-1]]
    use = use | {"network.graph": "ring"} if "algorithm.compressor" in use else use
    for config in (tiny(**use, **{path: value}), with_fields(tiny(**use), {path: str(value)})):
        assert getattr(getattr(resolve(config), section), name) == value
    assert getattr(getattr(resolve(tiny(**use)), section), name) is None
    for config in (tiny(**use, **{path: bad}), tiny(**{path: bad})):  # whichever member is in use
        assert told(config) == f"{path} is {bad}; it must be {expected}"
    with pytest.raises(UserError, match=rf"{path} is 'much'; it must be a(?: whole)? number"):
        check_value(path, "much")
    study = make_study(tiny(**use, sweep=f"{path}=1,{value}"))
    assert (len(study.points), len(study.groups)) == (2, 1)
    assert [getattr(getattr(point.experiment, section), name) for point in study.points] == [1, value]


def test_numbers_reach_the_program_in_their_types(tiny):
    add_rule()
    add_algorithm()
    add_compressor()
    use = {"network.mobility": "hopping", "algorithm.name": "careful", "motion.hop": 4, "motion.hop_twice": True}
    hparams = hparams_of(resolve(tiny(**use)), [Movement("hopping"), Movement("random_waypoint")])
    hops, waypoints = hparams.network.rules
    assert (type(hops), hops.hop, hops.hop.dtype) == (HopNumbers, 4.0, np.float32)
    assert (bool(hops.hop_twice), hops.hop_twice.dtype) == (True, np.bool_)
    assert float(waypoints.speed_max) == 50.0  # of each rule in the program, its own where nothing is said
    assert (hparams.algorithm.care, hparams.algorithm.care.dtype, hparams.algorithm.parts) == (3, np.int32, 2)
    compressed = {"algorithm.name": "choco", "algorithm.compressor": "halved", "algorithm.half": 0.25}
    experiment = resolve(tiny(**compressed))
    numbers = hparams_of(experiment, [movement_of(experiment)]).algorithm
    assert (type(numbers.compressor), numbers.compressor.half) == (HalfNumbers, np.float32(0.25))


def test_a_static_number_is_a_program_of_its_own(tiny):
    add_algorithm()
    config = tiny(**{"algorithm.name": "careful", "sweep": "algorithm.parts=1,2,3; algorithm.care=1,2"})
    assert [len(group) for group in group_points(points(resolve(config)))] == [2, 2, 2]


def test_a_number_of_another_type_or_static_here_and_traced_there_is_refused():
    class CountNumbers(Numbers):
        hop: int = number(2, "hops in a round", at_least=0)

    class StaticNumbers(LocalNumbers):
        rho: float = number(0.1, "a shape", static=True)

    def line_of(ask):
        with pytest.raises(UserError) as caught:
            ask()
        return str(caught.value)

    add_rule()
    add_rule(CountNumbers, "counting")
    other = "its number 'hop' has another type than that of 'counting'; choose another name"
    assert line_of(schema) == f"mobility 'hopping': {other}"
    MOBILITIES.remove("counting")
    add_algorithm(StaticNumbers)
    other = "its number 'rho' has another type than that of 'careful'; choose another name"
    assert {line_of(ask) for ask in (default_config, schema, all_fields)} == {f"algorithm 'dfedsam': {other}"}


def test_none_is_the_members_own_and_zero_is_zero(tiny):
    """Each member has its default, and a value of the configuration is everybody's."""
    found = {}
    for name in ("dpsgd", "pame", "dfedavgm", "choco", "fedmobile"):
        for changes in ({}, {"algorithm.lr": 0.3, "algorithm.participation": 0.0}):
            experiment = resolve(tiny(**{"algorithm.name": name}, **changes))
            numbers = algorithm_numbers(experiment)
            found[name, bool(changes)] = numbers.lr, numbers.participation
        own = ALGORITHMS.numbers(name)()
        assert found[name, False] == (own.lr, own.participation)
        assert found[name, True] == (0.3, 0.0)
    assert found["pame", False] != found["dpsgd", False]
    unset = resolve(tiny())
    assert all(getattr(unset.algorithm, name) is None for name in ("lr", "momentum", "levels", "period_max"))
    assert check_value("algorithm.lr", None) is None
    with pytest.raises(UserError, match="seeds is None"):
        check_value("seeds", None)


def test_a_number_says_itself_when_it_has_no_effect(tiny):
    class ShyNumbers(LocalNumbers):
        calm: float = number(0.5, "of the optimiser SGD", at_least=0, at_most=1, only_with="algorithm.optimizer=sgd")
        reach: float = number(0.5, "how far it hears", at_least=0, at_most=1, part="links")

    register("shy", ShyNumbers)(lambda settings: dpsgd(settings)._replace(needs=frozenset()))
    register("open", ShyNumbers)(lambda settings: dpsgd(settings))
    own = {"algorithm.calm": 0.2, "algorithm.reach": 0.3}
    lines = {
        "algorithm.calm is 0.2; it has no effect: algorithm.optimizer is adam",
        "algorithm.reach is 0.3; it has no effect: shy does not use the links of the network",
    }
    assert set(notes(resolve(tiny(**{"algorithm.name": "shy", "algorithm.optimizer": "adam"}, **own)))) == lines
    assert notes(resolve(tiny(**{"algorithm.name": "open"}, **own))) == []


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
    # Between the two there is nothing for anybody: the first that has the number says it.
    assert told(tiny(**{"motion.hop": 150.0})) == "motion.hop is 150.0; it must be greater than 0 and at most 100"
    line = told(tiny(sweep="network.mobility=hopping,leaping", **{"motion.hop": 90.0}))
    assert line == "sweep, point 'leaping': motion.hop is 90.0; it must be at least 200 and at most 900"
    # A member's check sees the rest of the configuration, and is asked where the member is in use.
    narrow = {"motion.width": 10.0, "motion.hop": 50.0}
    assert told(tiny(**{"network.mobility": "hopping", **narrow})) == (
        "motion.hop is 50; hopping needs it below motion.width"
    )
    make_study(tiny(**{"network.mobility": "dcm", **narrow}))
    make_study(tiny(**{"network.mobility": "hopping", "network.graph": "ring", **narrow}))  # nobody moves


def test_an_algorithm_that_compresses_has_the_numbers_of_its_compressor(tiny):
    class SquashNumbers(CompressedNumbers):
        own_compressor = "qsgd"

    register("squash", SquashNumbers, ignores=())(lambda settings: dpsgd(settings))
    for changes, expected in (
        ({}, COMPRESSORS.numbers("qsgd")(levels=16)),
        ({"algorithm.levels": 3}, COMPRESSORS.numbers("qsgd")(levels=3)),
        ({"algorithm.compressor": "top_k", "algorithm.transmission": 0.5}, COMPRESSORS.numbers("top_k")(0.5)),
        ({"algorithm.compressor": "sign", "algorithm.levels": 3}, COMPRESSORS.numbers("sign")()),
    ):
        found = algorithm_numbers(resolve(tiny(**{"algorithm.name": "squash", **changes})))
        assert (type(found), found.compressor) == (SquashNumbers, expected)


def test_an_algorithm_takes_the_settings_that_it_does_not_ignore(tiny):
    for name in ALGORITHMS:
        assert ignored_by(name) <= {*UNUSED, "sends"}, name
    add_algorithm(name="ignorant")  # ignores the compressor and the aggregation, as most do
    ALGORITHMS.register("of_my_own")(ALGORITHMS["dpsgd"])
    register("of_mine_too", CarefulNumbers, ignores=("momentum",))(ALGORITHMS["dpsgd"])
    assert numbers_of("of_mine_too").care == 3
    given = {"algorithm.compressor": "top_k", "algorithm.momentum": 0.9}
    resolve(tiny(**{"algorithm.name": "of_my_own"}, **given))
    for name, field in (("of_mine_too", "momentum is 0.9"), ("ignorant", "compressor is top_k")):
        assert told(tiny(**{"algorithm.name": name}, **given)).startswith(f"algorithm.{field}; it must be ")
