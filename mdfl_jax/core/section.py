"""Sections of the configuration, each of which lies in one file: its fields, its rules, its numbers and its wrapper.

A file in one of the homes of `SECTIONS` registers a subclass of `Section`. The configuration (`mdfl_jax.config`) then
has its fields, refuses what its rules refuse, and puts what it wraps around the network. So a new wrapper of networks
with settings of its own is one file. ``whole`` stands for the whole configuration, an
`mdfl_jax.config.sections.Experiment`, of which a section may read the other sections.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from mdfl_jax.core.numbers import Numbers, from_values
from mdfl_jax.core.registry import Registry, caller
from mdfl_jax.core.types import Algorithm, Network, Task

Rule = tuple[str, object, str]
"""A field, whether its value is refused, and what the value must be, with the reason after a colon."""
PICKED = 50  # the order at which neighbours are picked (`mdfl_jax.networks.wrappers.participation`)


def field(default: Any, doc: str, **rules: Any) -> Any:
    """Declare a field of a section, with bounds and ``names`` as `mdfl_jax.core.numbers.number` has them.

    ``names`` may be a function that returns the names. ``traced=True`` says that the field is no constant of the
    compiled program. ``file=True`` says that the text names a file that the study reads, with ``folder=True`` also a
    folder. ``in_runs=False`` says that no run depends on the field: a finished study takes another value without
    running again. ``part`` names what the field is about, since the members in use may ignore it: samples, places,
    mixing, links, picks, server, or a part of a section (`Section.ignored`). ``part="PATH=VALUE,VALUE"`` says that the
    field has an effect with these values of another field only.
    """
    return dataclasses.field(default=default, metadata={"doc": doc, **rules})


class Family(NamedTuple):
    """A registry of members, and its place in the configuration.

    Attributes:
      registry: The members.
      title: The headline of its page.
      section: The section that holds the numbers of the members.
      field: The path of the field that names the member.
      used: (configuration, value of this field) -> the name of the member in use, which may be none of the registry.
      about: What the family is, and the symbols of the formulas of its members.
      needs: (name of a member) -> what it asks of the rest of the configuration, in a sentence; "" for nothing.
    """

    registry: Registry
    title: str
    section: str
    field: str
    used: Callable[[Any, str], str] = lambda whole, name: name
    about: str = ""
    needs: Callable[[str], str] = lambda name: ""


class Built(NamedTuple):
    """What is there before a wrapper is put around a network: the task, the algorithm, and its work in a round."""

    task: Task
    algorithm: Algorithm
    work: Any


@dataclass(frozen=True)
class Section:
    """The base of sections that lie in one file. What a subclass does not define, it does not have.

    Whether a section is in use decides which program a sweep point needs, so points on both sides do not share one.

    Attributes:
      SECTION, ORDER, SWITCH: The arguments of `section`.
      FAMILIES: The families of members whose numbers the section holds.
    """

    SECTION: ClassVar[str] = ""
    ORDER: ClassVar[int] = 0
    SWITCH: ClassVar[str] = ""
    FAMILIES: ClassVar[tuple[Family, ...]] = ()

    @classmethod
    def of(cls, whole: Any) -> Self:
        """Return the section of a configuration."""
        return getattr(whole, cls.SECTION)

    def in_use(self, whole: Any) -> bool:
        """Tell whether the section changes anything."""
        return False

    def rules(self, whole: Any) -> Iterator[Rule]:
        """Yield the rules for its fields. Checking stops at the first violation.

        Raises:
          UserError: If a field whose text has a form of its own is of another one.
        """
        yield from ()

    def ignored(self, whole: Any) -> Iterator[Rule]:
        """Yield the parts of which fields may be about (`field`), or fields, whether they are ignored, and why."""
        yield from ()

    def notes(self, whole: Any, num_samples: int) -> Iterator[Rule]:
        """Yield fields, whether each is to be noted, and why it probably is not what is meant.

        Args:
          whole: the configuration.
          num_samples: the training samples of all clients; 0 where a task draws its data.
        """
        yield from ()

    def counts(self, whole: Any) -> bool:
        """Tell whether it needs seconds and joules to be counted."""
        return False

    def describe(self, whole: Any) -> str:
        """Return what an error about the network says of it; "" for nothing. Here: what is set, if it wraps."""
        if type(self).wrap is Section.wrap or self.ORDER >= PICKED:
            return ""
        found = [each for each in dataclasses.fields(self) if getattr(self, each.name) != each.default]
        return " and ".join(f"{self.SECTION}.{each.name}={getattr(self, each.name)}" for each in found)

    def link_filter(self, whole: Any, work: Any) -> Any:
        """Return the rule by which it removes links (`mdfl_jax.networks.link_filters.LinkFilter`); None for none.

        Args:
          whole: the configuration.
          work: what a client computes in a round (`mdfl_jax.networks.costs.Work`).
        """
        return None

    def filter_params(self, whole: Any, cost: Any) -> Any:
        """Return the traced numbers of `link_filter`; ``cost`` as in `params`."""
        return None

    def best_rate(self, whole: Any) -> float:
        """Return the most bits per second that a link may carry; infinite if it bounds no link."""
        return math.inf

    def replaced_by_heights(self) -> dict[str, Any] | None:
        """Return the fields that are set and that heights of a trace replace; None if it reads no heights."""
        return None

    def lasts(self, whole: Any) -> bool:
        """Tell whether something of it takes place in seconds, so that the length of a round counts."""
        return False

    def begins_anew(self, whole: Any) -> bool:
        """Tell whether a client may begin again with the first model in a round."""
        return False

    def check_task(self, whole: Any, task: Task) -> None:
        """Check a sweep point against the task. It is called for each point, if the section is in use there.

        Raises:
          UserError: If the point asks for what the task does not have.
        """

    def owners(self, whole: Any) -> tuple[int, int] | None:
        """Return among how many the task within `wrap_task` divides the data, and how many of these get none.

        None: among the clients, of which relays get none.
        """
        return None

    def wrap_task(self, task: Task, whole: Any, num_strata: int) -> Task:
        """Return the task with what the section puts around it. It is called if the section is in use.

        Groups whose sections and numbers of clients are equal share a task, so nothing else may decide it. Only one
        section in use may do this.

        Args:
          task: the task, whose clients are the `owners`.
          whole: the configuration.
          num_strata: the number of labels, or of strata, by which the data are divided.
        """
        return task

    def task_params(self, inner: Any, whole: Any) -> Any:
        """Return the traced numbers of `wrap_task`, around those of the task within."""
        return inner

    def wrap(self, network: Network, whole: Any, built: Built) -> Network:
        """Return the network with what the section puts around it. It is called if the section is in use.

        Raises:
          UserError: If this network, task or algorithm does not fit.
        """
        return network

    def params(self, inner: Any, whole: Any, cost: Any) -> Any:
        """Return the traced numbers of `wrap`, as NumPy values of fixed types.

        Args:
          inner: those of the network within.
          whole: the configuration.
          cost: the numbers of the costs (`mdfl_jax.networks.costs.CostParams`); None: nothing is counted.

        Raises:
          UserError: If a file cannot be used.
        """
        return inner

    def member(self, registry: Registry, name: str) -> Numbers:
        """Return the numbers of a member: the values that the section sets, else the member's own defaults."""
        return from_values(registry.numbers(name), vars(self))

    def traced(self, registry: Registry, name: str) -> Any:
        """Return the numbers of a member as NumPy scalars of fixed type, or None if the registry has no such member."""
        return self.member(registry, name).traced() if name in registry else None


SECTIONS: Registry[type[Section]] = Registry(
    "section",
    home=("mdfl_jax.networks", "mdfl_jax.networks.wrappers"),
    contrib=("collecting", "energy", "presence", "privacy", "radios"),
)
"""The sections that lie in one file each."""


def section(name: str, order: int, switch: str = "") -> Callable[[type[Section]], type[Section]]:
    """Return a decorator that registers a section.

    Args:
      name: The name of the section in configurations. If the configuration has such a section already, the fields are
        added to it.
      order: The wrappers are put around the network in this order. Those below `PICKED` decide what an algorithm finds;
        the others see what is left of it after neighbours are picked. Link filters and rules have the same order.
      switch: The field that brings the section into use. Without it the other fields have no effect: a note says so.
        Empty: there is no such field.
    """
    origin = caller()

    def add(kind: type[Section]) -> type[Section]:
        kind.SECTION, kind.ORDER, kind.SWITCH = name, order, switch
        return SECTIONS.register(name, origin=origin)(kind)

    return add


def sections() -> list[type[Section]]:
    """Return the sections of `SECTIONS` in their order."""
    return sorted((SECTIONS[name] for name in SECTIONS), key=lambda kind: kind.ORDER)


def sections_in(whole: Any) -> list[Section]:
    """Return the sections that a configuration uses, in their order."""
    found = (kind.of(whole) for kind in sections())
    return [each for each in found if each.in_use(whole)]


SWITCHES: dict[str, Callable[[Any], bool]] = {}
"""What a compiled program has or leaves out, by the name of the function that decides it (`switch`)."""


def switch(decides: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Declare that compiled programs differ by what a function returns for a configuration.

    Traced numbers are no part of the key of a program (`mdfl_jax.config.points.program_key`). But where a number says
    that something does not happen at all, the program may leave it out. The function that decides this, wherever a
    network, a task or an algorithm is made, is declared here, and so it is a part of the key. That a section is in use
    is a part of it without a word.
    """
    SWITCHES[decides.__name__] = decides
    return decides


def switches_of(whole: Any) -> tuple[str, ...]:
    """Return the names of what the program of a configuration has and another one may leave out."""
    names = {name for name, decides in SWITCHES.items() if decides(whole)}
    return tuple(sorted(names | {each.SECTION for each in sections_in(whole)}))


@switch
def is_counted(whole: Any) -> bool:
    """Tell whether a study counts seconds and joules."""
    return any(kind.of(whole).counts(whole) for kind in sections())
