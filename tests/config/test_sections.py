"""A section that lies in one file: its fields, rules, numbers and wrapper are found, and only where it is in use."""

import contextlib
import shutil
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from tables import with_fields
from tiny import run_study, tiny_config

from mdfl_jax import UserError
from mdfl_jax.config.checks import check_used, told_idle
from mdfl_jax.config.points import group_points, points
from mdfl_jax.config.resolve import all_fields, checked_value, resolve
from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.core.own_files import import_file
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.section import PICKED, Family, Section, field, section, sections, sections_in
from mdfl_jax.core.types import FIXED
from mdfl_jax.exchange.active import links_among
from mdfl_jax.networks.wrappers.wrapper import wrap
from mdfl_jax.study import make_study

pytestmark = pytest.mark.usefixtures("unregistered")
SHORT = {"rounds": "4", "eval_every": "1", "seeds": "1", "network.mobility": "static", "network.radius": "20"}
HOURS: Registry[Any] = Registry("hours")


class Even(Numbers):
    """The numbers of ``even``."""

    period: int = number(2, "rounds from one open one to the next", at_least=1)


class Closed(NamedTuple):
    """The numbers, or the state, of the wrapper of these tests."""

    inner: Any
    numbers: Any = None


def registered(order=PICKED - 1):
    """A section from outside of the package: in some rounds nobody hears anybody."""
    HOURS.register("even", Even)(lambda numbers, index: index % numbers.period == 0)

    @section("opening", order=order, switch="hours")
    @dataclass(frozen=True)
    class OpeningConfig(Section):
        """When clients may talk."""

        hours: str = field("", "rounds with links; empty: all", names=lambda: ("", *HOURS))
        most: int = field(9, "the most rounds", at_least=1)

        FAMILIES = (Family(HOURS, "Hours", "opening", "opening.hours"),)

        def in_use(self, whole):
            return bool(self.hours)

        def rules(self, whole):
            yield "opening.hours", self.hours and whole.rounds > self.most, f"empty with more than {self.most} rounds"

        def wrap(self, network, whole, built):
            def init(params, key, clients):
                return Closed(network.init(params.inner, key, clients))

            def step(params, key, round_index, state, clients):
                inner, links = network.step(params.inner, key, round_index, state.inner, clients)
                is_open = HOURS[self.hours](params.numbers, round_index)
                return Closed(inner), links_among(links, jnp.full(network.num_clients, is_open))

            return wrap(network, init=init, step=step, gives=network.gives - {FIXED})

        def params(self, inner, whole, cost):
            return Closed(inner, self.traced(HOURS, self.hours))

    return OpeningConfig


def made(**fields):
    return resolve(with_fields(tiny_config(), SHORT | {path.replace("__", "."): text for path, text in fields.items()}))


def test_a_section_from_outside_is_a_part_of_the_configuration():
    kind = registered()
    plain, used = made(), made(opening__hours="even", opening__period="3")
    assert kind.of(used).hours == "even"
    assert [each.SECTION for each in sections_in(used)] == ["opening"]
    assert sections_in(plain) == []
    with pytest.raises(UserError, match=r"^opening\.hours is even; it must be empty with more than 3 rounds$"):
        made(opening__hours="even", opening__most="3")
    with pytest.raises(UserError, match=r"^opening\.period is 0; it must be at least 1"):
        made(opening__hours="even", opening__period="0")
    line = "opening.most is 7; ignored: opening.hours is empty"
    assert told_idle([made(opening__most="7")]) == {"opening.most": line}


GIVES_WAY = {"network.graph", "network.num_clients", "network.num_mobile", "network.movers", "network.mixing"}
OFF: dict[str, tuple[set[str], set[str]]] = {
    "": ({"graph", "motion", "trace"}, set()),
    "network.graph=ring": ({"motion", "network", "trace"}, GIVES_WAY | {"network.link_failure"}),
    "server.pattern=exponential": ({"motion", "network", "trace"}, GIVES_WAY),
    "data.name=synthetic:linear": ({"model"}, {"model.pretrained", "model.shared"}),  # told when the task is made
}
"""What is set => the sections that are off then, and the fields of them that are read all the same."""


def other_value(path, each):
    """A value that a field may have, and that is not its default."""
    names = each.metadata.get("names", ())
    numbers = (not each.default, 1, 2, 0.25, 0.5, *(names() if callable(names) else names), "0,1", (8,), 200.0)
    for value in numbers:
        with contextlib.suppress(UserError):
            if (found := checked_value(path, value)) != each.default:
                return found
    raise AssertionError(path)


@pytest.mark.parametrize("given", OFF)
def test_each_field_of_a_section_that_is_off_is_refused_or_noted(given):
    """All declared fields, also the numbers of members; a field of a section with a wrapper may bring it into use."""
    off, read = OFF[given]
    base = dict([given.split("=")]) if given else {}
    own = {f"{kind.SECTION}.{each.name}" for kind in sections() for each in fields(kind)}
    members = {kind.SECTION for kind in sections() if kind.FAMILIES}
    own |= {path for path, each in all_fields().items() if "own" in each.metadata and path.split(".")[0] in members}
    silent = []
    for path, each in all_fields().items():
        if path in read or not (path.split(".")[0] in off or (path in own and not given)):
            continue
        value = other_value(path, each)
        try:
            found = resolve(tiny_config(**base | {path: value}))
            check_used([found])
        except UserError:
            continue
        if path not in told_idle([found]) and not any(
            path.split(".")[0] == kind.SECTION for kind in map(type, sections_in(found))
        ):
            silent.append(path)
    assert silent == []


def test_an_algorithm_whose_links_it_changes_is_refused_with_its_fields():
    registered()
    fields = {"algorithm.name": "extra", "network.graph": "ring", "opening.hours": "even", "opening.period": "3"}
    with pytest.raises(
        UserError, match=r"^extra needs .*, which network\.graph=ring and opening\.hours=even and opening\.period=3, "
    ):
        make_study(with_fields(tiny_config(), SHORT | fields))


@pytest.mark.few(1)
@pytest.mark.parametrize("order", [PICKED - 1, PICKED])
def test_its_wrapper_acts_in_the_points_that_use_it(tmp_path, order):
    registered(order)
    sweep = {"opening.hours": "even", "sweep": "opening.period=2,4"}
    run_study(make_study(with_fields(tiny_config(), SHORT | sweep)), tmp_path)
    with np.load(tmp_path / "history.npz") as history:
        second, fourth = (np.diff(history[f"{p}/messages"], axis=1).sum(axis=-1)[0] for p in range(2))
    np.testing.assert_array_equal(second > 0, [True, False, True, False])
    np.testing.assert_array_equal(fourth > 0, [True, False, False, False])


@pytest.mark.parametrize(
    ("sweep", "programs"),
    [
        ("opening.hours=,even", 2),
        ("opening.hours+opening.period=even+2,even+3", 1),
        ("energy.capacity=0,50,80", 2),
    ],
)
def test_points_on_both_sides_of_a_section_have_programs_of_their_own(sweep, programs):
    registered()
    assert len(group_points(points(made(sweep=sweep, cost__joules_per_sample="1")))) == programs


def sleeping(folder):
    """The example of a wrapper, imported anew: what it registers is gone after a test."""
    copied = shutil.copy(Path(__file__).parents[2] / "examples" / "sleeping.py", folder)
    import_file(str(copied))


def test_a_wrapper_of_one_file_has_its_field_its_check_and_its_metric(tmp_path):
    sleeping(tmp_path)
    with pytest.raises(UserError, match=r"^sleep\.every is 1; it must be 0 or at least 2: "):
        made(sleep__every="1")
    wanted = with_fields(tiny_config(), SHORT | {"sweep": "sleep.every=2,4"})
    summary = run_study(make_study(wanted), tmp_path / "study")
    awake = [point["awake"]["mean"] for point in summary["points"]]  # of 6 clients 1, 3, 5, or 1, 5, sleep in round 3
    np.testing.assert_allclose(awake, [3 / 6, 4 / 6])


def test_clients_left_out_by_an_own_wrapper_are_as_those_that_are_away(tmp_path):
    """Wrappers around it, here picks of neighbours and attackers, read links in which no sleeper is."""
    sleeping(tmp_path)
    rows = [f"{client},{t},{t + 1}" for client in range(6) for t in range(8) if (t + client) % 2]
    (tmp_path / "stays.csv").write_text("\n".join(["client,from,to", *rows]))
    together = {"algorithm.participation": "0.5", "attack.name": "sign_flip", "attack.number": "1"}
    together |= {"rounds": "8", "network.radius": "120"}
    away = {"presence.name": "table", "presence.file": str(tmp_path / "stays.csv")}
    of_sleep, of_presence = (
        run_study(make_study(with_fields(tiny_config(), SHORT | together | own)), tmp_path / name)["points"][0]
        for name, own in (("sleep", {"sleep.every": "2"}), ("presence", away))
    )
    shown = [name for name in of_sleep if name in of_presence and isinstance(of_sleep[name], dict)]
    assert {"contamination", "final_accuracy"} <= {*shown}
    for name in shown:
        assert of_sleep[name] == of_presence[name], name


def test_nobody_can_be_left_out_where_meetings_are_known(tmp_path):
    sleeping(tmp_path)
    known = {"rounds": "4", "algorithm.name": "fedmobile", "server.pattern": "fixed", "sleep.every": "2"}
    with pytest.raises(UserError, match=r"^a wrapper leaves clients out of rounds, but server\.pattern says whom "):
        run_study(make_study(with_fields(tiny_config(), known)), tmp_path / "study")
