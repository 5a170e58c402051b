"""The mobility rules by name, and in which worlds and with which knowledge each of them moves clients.

The files of `mdfl_jax.mobility.rules` and `mdfl_jax.mobility.strategies` register the rules, and `mdfl_jax.contrib` has
more of both. They are imported at the first look-up, so a new file there is a new rule.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import fields_of, from_values
from mdfl_jax.core.registry import Origin, Registry, caller
from mdfl_jax.mobility.choosing import Choose, Strategy, StrategyNumbers, forms_of
from mdfl_jax.mobility.rule import EXPLORED, MET, ORACLE, WORLDS, Form, Mobility, WorldKind

OWN_WORLD = "auto"  # the world of `network.world` that stands for the rule's own


class Movement(NamedTuple):
    """How the clients of a run move.

    Attributes:
      rule: the name of the rule, `network.mobility`.
      knowledge: what mobile clients know of static ones, `motion.knowledge`. It has no effect on a rule that needs no
        such knowledge.
      world: where they move, `network.world`; ``auto`` is the rule's own world.

    >>> str(Movement("dcm", "met")), str(Movement("static", world="plane"))
    ('dcm with knowledge met', 'static in the plane')
    """

    rule: str
    knowledge: str = ORACLE
    world: str = OWN_WORLD

    def __str__(self) -> str:
        known = f" with knowledge {self.knowledge}" if self.knowledge != ORACLE else ""
        return self.rule + known + (f" in the {WORLDS[self.world]}" if self.world in WORLDS else "")


_STRATEGIES = ("age_aware", "coordinated", "dcm_weighted", "learnt", "spectral", "staleness", "waiting")
RENAMED = {
    "dam_met": Movement("dam", MET),
    "dcm_met": Movement("dcm", MET),
    "exploring": Movement("waiting", EXPLORED),
    "static_trace": Movement("static", world="trace"),
    **{f"{rule}_plane": Movement(rule, world="plane") for rule in ("cover_tour", "dcm", "static")},
    **{f"{rule}_met": Movement(rule, MET) for rule in _STRATEGIES},
    **{f"{rule}_plane": Movement(rule, world="plane") for rule in _STRATEGIES},
    **{f"{rule}_met_plane": Movement(rule, MET, "plane") for rule in _STRATEGIES},
}
"""The names of earlier versions that also said what clients know or where they move. Results files hold them still."""


class Mobilities(Registry[Callable[[], Mobility]]):
    """The registry of mobility rules. Most of them have one form; strategies have one for each world and knowledge."""

    def __init__(self) -> None:
        home = ("mdfl_jax.mobility.rules", "mdfl_jax.mobility.strategies")
        super().__init__("mobility", home=home, contrib=("mobility", "strategies"))
        self._forms: dict[str, tuple[Form, ...]] = {}

    def register_forms(
        self,
        name: str,
        forms: Sequence[Form],
        doc: str,
        origin: Origin | None = None,
        *,
        formula: str = "",
        cite: str = "",
    ) -> None:
        """Register a rule of several forms, the first of which is meant where a configuration sets nothing.

        Args:
          name: the rule's name in configurations.
          forms: its forms; one of them must have the numbers of all.
          doc, origin, formula, cite: as in `Registry.register`.
        """
        most = max((form.numbers for form in forms), key=lambda numbers: len(fields_of(numbers)))
        self.register(name, most, doc, origin or caller(), formula=formula, cite=cite)(forms[0].make)
        self._forms[name] = tuple(forms)

    def unknown(self, name: str) -> str:
        """Return the error line for a name that no rule has; for a name of an earlier version, what to write now."""
        if name not in RENAMED:
            return super().unknown(name)
        rule, knowledge, world = RENAMED[name]
        fields = {"network.mobility": rule, "motion.knowledge": knowledge, "network.world": world}
        own = {"motion.knowledge": ORACLE, "network.world": OWN_WORLD}
        now = ", ".join(f"{path}={value}" for path, value in fields.items() if value != own.get(path))
        return f"mobility {name} is now {now}; in Python, Movement{tuple(RENAMED[name])}"

    def remove(self, name: str) -> None:
        """Remove a rule with all its forms, so that its name is unknown again."""
        super().remove(name)
        self._forms.pop(name, None)

    def forms(self, name: str) -> tuple[Form, ...]:
        """Return the forms of a rule, its own form first.

        Raises:
          UserError: for an unknown name; the message suggests the most similar one.
        """
        make = self[name]
        known = self._forms.get(name, ())
        if known and known[0].make is make:
            return known
        return (Form(make, make().world, numbers=self.numbers(name)),)

    def form(self, movement: Movement | Form) -> Form:
        """Return the form of a rule that a configuration asks for; a form itself is one that needs no registration.

        Raises:
          UserError: if the rule is unknown, or lacks this world or this knowledge. The message names the field, its
            value and what is allowed.
        """
        if isinstance(movement, Form):
            return movement
        name, knowledge, world = movement
        forms = self.forms(name)
        worlds = list(dict.fromkeys(form.world for form in forms))
        if world not in (OWN_WORLD, *worlds):
            raise UserError(f"network.world is {world}; with network.mobility {name} it must be {_either(worlds)}")
        there = [form for form in forms if form.world == (worlds[0] if world == OWN_WORLD else world)]
        for form in there:
            if form.knowledge in ("", knowledge):
                return form
        known = _either([form.knowledge for form in there])
        raise UserError(f"motion.knowledge is {knowledge}; with network.mobility {name} it must be {known}")


def _either(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


MOBILITIES = Mobilities()
"""The mobility rules: name -> a function that makes the rule in its own world, with the knowledge of an oracle."""


def as_movement(mobility: "str | Movement | Form") -> Movement | Form:
    """Return a movement, given as such or by the name of its rule alone; a form stays one."""
    return Movement(mobility) if isinstance(mobility, str) else mobility


def rule_numbers(mobility: "Sequence[str | Movement | Form]", **values: Any) -> tuple[Any, ...]:
    """Make the numbers of mobility rules, for `SpatialParams.rules`.

    Args:
      mobility: the movements of the network, as of `mdfl_jax.networks.spatial.spatial`.
      **values: numbers by name. Each rule takes the numbers that it has, and its default where none is given.

    Returns:
      The numbers of each rule, in the order of ``mobility``.
    """
    return tuple(from_values(MOBILITIES.form(as_movement(one)).numbers, values) for one in mobility)


def strategy(
    name: str,
    numbers: type[StrategyNumbers] = StrategyNumbers,
    knowledge: Sequence[str] = (ORACLE, MET),
    *,
    formula: str = "",
    cite: str = "",
    **ways: Any,
) -> Callable[[Choose], Choose]:
    """Return a decorator that registers a strategy as a mobility rule, on the grid and in the plane.

    Args:
      name: the name of the rule.
      numbers: the class of its numbers, a subclass of `StrategyNumbers`.
      knowledge: with which of `mdfl_jax.mobility.rule.KNOWLEDGE` the strategy can do; the first is listed first. Empty:
        it knows no client at all, and sees where it has been, as under ``explored``.
      formula, cite: as in `mdfl_jax.core.registry.Member`.
      **ways: further fields of `mdfl_jax.mobility.choosing.Strategy`: prepare, everywhere, replans and compares.
    """

    def add(choose: Choose) -> Choose:
        forms = forms_of(Strategy(choose, **ways), numbers, ("grid", "plane"), knowledge)
        MOBILITIES.register_forms(name, forms, choose.__doc__ or "", caller(), formula=formula, cite=cite)
        return choose

    return add


def movement_of(whole: Any) -> Movement:
    """Return how the clients of a configuration move: the rule, what they know, and where."""
    network = whole.network
    return Movement(network.mobility, whole.motion.knowledge, network.world)


def world_in(whole: Any) -> WorldKind:
    """Return the world in which the clients of a configuration move, if no graph ties them."""
    return MOBILITIES.form(movement_of(whole)).world
