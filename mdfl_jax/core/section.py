"""Sections of the configuration. Each section is one file with its fields, rules, hyperparameters and wrapper.

A file in one of the homes of `SECTIONS` registers a subclass of `Section`. The configuration (`mdfl_jax.config`) then
has the section's fields, checks its rules, and wraps the network. So a new wrapper of networks with settings of its own
is one file. ``whole`` is the whole configuration, an `mdfl_jax.config.sections.Experiment`; a section may read its
other sections.
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
"""(the path of a field, whether its value is refused, what the value must be and, after a colon, why)."""
PICKED = 50  # the order at which neighbours are picked (`mdfl_jax.networks.wrappers.participation`)


def field(default: Any, doc: str, **rules: Any) -> Any:
    """Declare a field of a section, with bounds and ``names`` as `mdfl_jax.core.numbers.number` has them.

    ``names`` may be a function that returns the names. ``traced=True``: the field is not a constant of the compiled
    program. ``file=True``: the text names a file that the study reads; with ``folder=True`` also a folder.
    ``in_runs=False``: no run depends on the field, so a finished study takes another value without running again.
    ``part``: the subject of the field, which the entries in use may ignore: samples, places, mixing, links, picks,
    server, or a part of a section (`Section.ignored`). ``part="PATH=VALUE,VALUE"``: the field has an effect only with
    these values of another field.
    """
    return dataclasses.field(default=default, metadata={"doc": doc, **rules})


class Family(NamedTuple):
    """A registry of entries, and its place in the configuration.

    Attributes:
      registry: The entries.
      title: The headline of its page.
      section: The section that holds the hyperparameters of the entries.
      field: The path of the field that names the entry.
      used: (configuration, value of this field) -> the name of the entry in use; the name may be in no registry.
      about: A description of the registry, with the symbols of its formulas.
      needs: (name of an entry) -> a sentence with what it needs of the rest of the configuration; "" for nothing.
    """

    registry: Registry
    title: str
    section: str
    field: str
    used: Callable[[Any, str], str] = lambda whole, name: name
    about: str = ""
    needs: Callable[[str], str] = lambda name: ""


class Built(NamedTuple):
    """What wrappers of networks may read: the task, the algorithm, and the algorithm's work in a round."""

    task: Task
    algorithm: Algorithm
    work: Any


@dataclass(frozen=True)
class Section:
    """The base class of sections in a file of their own. By default a section has no rules, wrappers or notes.

    A section in use changes the compiled program. So sweep points with and without it do not share a program.

    Attributes:
      SECTION, ORDER, SWITCH: The arguments of `section`.
      FAMILIES: The registries of the entries whose hyperparameters the section holds.
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
          UserError: If the text of a field does not have the required form.
        """
        yield from ()

    def ignored(self, whole: Any) -> Iterator[Rule]:
        """Yield (a part of `field`, or the path of a field; whether it is ignored; why)."""
        yield from ()

    def notes(self, whole: Any, num_samples: int) -> Iterator[Rule]:
        """Yield (the path of a field, whether to print a note, why its value is probably a mistake).

        Args:
          whole: The configuration.
          num_samples: The training samples of all clients; 0 where a task draws its data.
        """
        yield from ()

    def counts(self, whole: Any) -> bool:
        """Tell whether the section needs counts of seconds and joules."""
        return False

    def describe(self, whole: Any) -> str:
        """Return the section's text in errors about the network; "" for none. Here: its set fields, if it wraps."""
        if type(self).wrap is Section.wrap or self.ORDER >= PICKED:
            return ""
        found = [each for each in dataclasses.fields(self) if getattr(self, each.name) != each.default]
        return " and ".join(f"{self.SECTION}.{each.name}={getattr(self, each.name)}" for each in found)

    def link_filter(self, whole: Any, work: Any) -> Any:
        """Return the rule by which the section removes links (`mdfl_jax.networks.link_filters.LinkFilter`), or None.

        Args:
          whole: the configuration.
          work: what a client computes in a round (`mdfl_jax.networks.costs.Work`).
        """
        return None

    def filter_params(self, whole: Any, cost: Any) -> Any:
        """Return the traced values of `link_filter`; ``cost`` as in `params`."""
        return None

    def best_rate(self, whole: Any) -> float:
        """Return the largest rate of a link in bits per second; infinite if the section bounds no rate."""
        return math.inf

    def replaced_by_heights(self) -> dict[str, Any] | None:
        """Return the set fields that a trace's heights replace; None if the section reads no heights."""
        return None

    def lasts(self, whole: Any) -> bool:
        """Tell whether a part of the section is in seconds, so that the length of a round matters."""
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
        """Return (the number of owners among which the inner task divides the data, how many of them get none).

        None: the owners are the clients, and relays get no data. The inner task is the argument of `wrap_task`.
        """
        return None

    def wrap_model(self, model: Any, whole: Any, settings: Any) -> Any:
        """Return the wrapped client model. It is called if the section is in use.

        The wrapped model has a method ``around``: (variables of ``model``, None for those that are not drawn yet) ->
        its own variables, with None for those that it adds. So weights from a file fit it.

        Args:
          model: a client model (`mdfl_jax.models.adapters.client_model`).
          whole: the configuration.
          settings: what the model was made of (`mdfl_jax.models.model.ModelSettings`).

        Raises:
          UserError: If the section does not fit the model.
        """
        return model

    def wrap_task(self, task: Task, whole: Any, num_strata: int) -> Task:
        """Return the wrapped task. It is called if the section is in use; only one section in use may wrap the task.

        Groups of sweep points with equal sections and numbers of clients share a task, so the result may depend on
        nothing else.

        Args:
          task: the task, whose clients are the `owners`.
          whole: the configuration.
          num_strata: the number of labels, or of strata, by which the data are divided.
        """
        return task

    def task_params(self, inner: Any, whole: Any) -> Any:
        """Return the traced values of `wrap_task`; ``inner`` are those of the inner task."""
        return inner

    def wrap(self, network: Network, whole: Any, built: Built) -> Network:
        """Return the wrapped network. It is called if the section is in use.

        Raises:
          UserError: If this network, task or algorithm does not fit.
        """
        return network

    def params(self, inner: Any, whole: Any, cost: Any) -> Any:
        """Return the traced values of `wrap`, as NumPy values of fixed types.

        Args:
          inner: the values of the inner network.
          whole: the configuration.
          cost: the values of the costs (`mdfl_jax.networks.costs.CostParams`); None: nothing is counted.

        Raises:
          UserError: If a file cannot be used.
        """
        return inner

    def member(self, registry: Registry, name: str) -> Numbers:
        """Return the hyperparameters of an entry: the section's values, else the entry's defaults."""
        return from_values(registry.numbers(name), vars(self))

    def traced(self, registry: Registry, name: str) -> Any:
        """Return the hyperparameters of an entry as NumPy scalars; None if the registry has no such entry."""
        return self.member(registry, name).traced() if name in registry else None


SECTIONS: Registry[type[Section]] = Registry(
    "section",
    home=("mdfl_jax.networks", "mdfl_jax.networks.wrappers"),
    contrib=("adapters", "collecting", "energy", "personal", "presence", "privacy", "radios"),
)
"""The sections that have a file of their own."""


def section(name: str, order: int, switch: str = "") -> Callable[[type[Section]], type[Section]]:
    """Return a decorator that registers a section.

    Args:
      name: The name of the section in configurations. If the configuration already has a section of this name, the
        fields are added to it.
      order: The wrappers, link filters and rules are applied in this order. Wrappers below `PICKED` change the network
        before neighbours are picked; the others get the picked neighbours.
      switch: The field that brings the section into use. If it is not set, the other fields have no effect, and a note
        says so. Empty: there is no such field.
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
"""The functions that decide which parts a compiled program has, by name (`switch`)."""


def switch(decides: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Declare a function of a configuration whose result decides which parts a compiled program has.

    Traced values are not part of the key of a program (`mdfl_jax.config.points.program_key`). But a value such as a
    failure probability of zero lets the program omit a part. The function that decides this is declared here, and its
    result becomes a part of the key. The sections in use are a part of the key without a declaration.
    """
    SWITCHES[decides.__name__] = decides
    return decides


def switches_of(whole: Any) -> tuple[str, ...]:
    """Return the names of the parts that the program of a configuration has and other programs may omit."""
    names = {name for name, decides in SWITCHES.items() if decides(whole)}
    return tuple(sorted(names | {each.SECTION for each in sections_in(whole)}))


@switch
def is_counted(whole: Any) -> bool:
    """Tell whether a study counts seconds and joules."""
    return any(kind.of(whole).counts(whole) for kind in sections())
