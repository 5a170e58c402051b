"""Registries. A registry maps the name of an entry to a factory, its hyperparameters and its description.

An entry has its description (its docstring), its formula and the papers to cite in its own file. `mdfl info`, the pages
of the registries and `mdfl cite` are made from these.

In code, an entry is also called a member, and a registry a family.
"""

import importlib
import inspect
import os
import pkgutil
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from mdfl_jax.core.errors import UserError, unknown_name

if TYPE_CHECKING:  # numbers import JAX, and reports are made without JAX
    from mdfl_jax.core.numbers import Numbers

T = TypeVar("T")
CONTRIB = "mdfl_jax.contrib"  # the package of optional parts; it may be missing
_FOR_CALLERS = re.compile(r"\n\s*\n(?:Args|Attributes|Raises|Returns|Yields|>>> ).*", re.DOTALL)  # for callers


class Origin(NamedTuple):
    """Where an entry is registered: its module, and its file, "__main__" for a script or notebook."""

    module: str
    file: str


def caller() -> Origin:
    """Return the origin of the code that called the function which calls this one."""
    frame = sys._getframe(2)
    module = str(frame.f_globals.get("__name__"))
    return Origin(module, module if module == "__main__" else os.path.abspath(frame.f_code.co_filename))


class Member(NamedTuple):
    """What a registry knows of an entry.

    Attributes:
      value: the factory, or another object that is registered.
      numbers: the class of its hyperparameters; None: the usual class of the registry.
      text: its description; the first line says what the entry is.
      formula: what it computes, in the symbols of the registry.
      cite: the papers that describe it (`mdfl_jax.core.papers.cited`).
      traits: further properties, a record of the registry's class; None: the usual record of the registry.
      file: the absolute path of the file that registered it; "__main__" for a script or notebook.
      home: its module, if the module is in a home of the registry; else "".
    """

    value: Any
    numbers: "type[Numbers] | None" = None
    text: str = ""
    formula: str = ""
    cite: str = ""
    traits: Any = None
    file: str = ""
    home: str = ""

    @property
    def is_contrib(self) -> bool:
        """Whether the entry is in `CONTRIB`, not in the core."""
        return self.home.startswith(f"{CONTRIB}.")


class Registry(Generic[T]):
    """The entries of one registry, by name.

    >>> greetings = Registry("greeting")
    >>> @greetings.register("hello")
    ... def hello():
    ...     return "hello"
    >>> greetings["hello"]()
    'hello'
    >>> greetings["helo"]
    Traceback (most recent call last):
      ...
    mdfl_jax.core.errors.UserError: unknown greeting 'helo' (did you mean 'hello'?); known: hello
    """

    def __init__(
        self,
        kind: str,
        numbers: "type[Numbers] | None" = None,
        home: str | tuple[str, ...] = (),
        traits: Any = None,
        contrib: str | tuple[str, ...] = (),
    ):
        """Make an empty registry.

        Args:
          kind: the name of the registry in error messages.
          numbers: the class of hyperparameters of entries that are registered without a class.
          home: the package whose modules register the entries, or several packages. They are imported at the first
            look-up, so a new file there is a new entry.
          traits: the traits of entries that are registered without traits.
          contrib: the package in `CONTRIB` that is a further home, such as "algorithms", or several. It may be missing.
        """
        self.kind, self._usual, self._traits = kind, numbers, traits
        self._homes = (home,) if isinstance(home, str) else home
        self._homes += tuple(f"{CONTRIB}.{name}" for name in ((contrib,) if isinstance(contrib, str) else contrib))
        self._missing: list[str] = []  # the homes in `CONTRIB` that are not installed
        self._is_complete = False
        self._looking: set[int] = set()  # the threads that are importing the entries
        self._members: dict[str, Member] = {}

    def register(
        self,
        name: str,
        numbers: "type[Numbers] | None" = None,
        doc: str = "",
        origin: Origin | None = None,
        *,
        formula: str = "",
        cite: str = "",
        traits: Any = None,
    ) -> Callable[[T], T]:
        """Return a decorator that adds an entry.

        The same file, or the same notebook, may register a name again; another file may not.

        Args:
          name: the entry's name in configurations.
          numbers: the class of its hyperparameters; by default the usual class of the registry.
          doc: its description; the first line says what the entry is. By default its docstring.
          origin: where the entry is registered; by default where this function is called. A decorator of a registry
            passes its own `caller`.
          formula, cite, traits: as in `Member`.

        Raises:
          UserError: for a name that an entry of another file has (raised when the decorator is applied).
        """
        module, file = origin or caller()
        is_at_home = module.startswith(tuple(f"{home}." for home in self._homes))
        if not is_at_home:  # so that names of a home are taken first; modules of a home may be imported in any order
            self.discover()

        def add(member: T) -> T:
            held = self._members.get(name)
            if held and held.file != file:
                raise UserError(f"{self.kind} {name!r} is there already, from {held.file}; choose another name")
            text = _FOR_CALLERS.sub("", inspect.cleandoc(doc or getattr(member, "__doc__", None) or ""))
            home = module if is_at_home else ""
            self._members[name] = Member(member, numbers, text, formula, cite, traits, file, home)
            return member

        return add

    def remove(self, name: str) -> None:
        """Remove an entry; its name is then unknown."""
        self._members.pop(name, None)

    def discover(self) -> None:
        """Import the modules of the registry's homes, in the order of their names, which registers their entries."""
        thread = threading.get_ident()
        if self._is_complete or thread in self._looking:  # an entry's module may look up others
            return
        self._looking.add(thread)  # another thread imports the same modules, and waits for Python's import lock
        self._missing.clear()  # of a look-up that was interrupted
        try:
            for home in self._homes:
                if (names := _modules(home)) is None:
                    self._missing.append(home)
                for name in names or ():
                    importlib.import_module(f"{home}.{name}")
            self._is_complete = True
        finally:  # also after an interrupt: the next look-up finds the other entries
            self._looking.discard(thread)

    def __getitem__(self, name: str) -> T:
        return self.member(name).value

    def member(self, name: str) -> Member:
        """Return all that the registry knows of an entry.

        Raises:
          UserError: for an unknown name; the message suggests the most similar one.
        """
        self.discover()
        if name not in self._members:
            raise UserError(self.unknown(name))
        return self._members[name]

    def unknown(self, name: str) -> str:
        """Return the error line for an unknown name, with the homes that are missing."""
        return f"{unknown_name(self.kind, name, self)}{self.lacks()}"

    def lacks(self) -> str:
        """Return the end of an error line, with the homes in `CONTRIB` that are missing; "" if all are there."""
        self.discover()
        return f"; not installed: {', '.join(self._missing)}" if self._missing else ""

    def numbers(self, name: str) -> "type[Numbers]":
        """Return the class of an entry's hyperparameters.

        Raises:
          UserError: for an unknown name; the message suggests the most similar one.
        """
        return self.member(name).numbers or self.usual

    def traits(self, name: str) -> Any:
        """Return the traits of an entry, a record of the registry's class.

        Raises:
          UserError: for an unknown name; the message suggests the most similar one.
        """
        found = self.member(name).traits
        return self._traits if found is None else found

    @property
    def usual(self) -> "type[Numbers]":
        """The class of hyperparameters of entries that are registered without a class."""
        from mdfl_jax.core.numbers import Numbers

        return self._usual or Numbers

    def doc(self, name: str) -> str:
        """Return the one-line description of an entry."""
        return self.member(name).text.partition("\n")[0]

    def told(self, name: str) -> str:
        """Return the description of an entry after its first line.

        If its module registers no other entry of this registry, the module's docstring is a part of the description.
        """
        member = self.member(name)
        parts = [member.text]
        if member.home and [other.home for other in self._members.values()].count(member.home) == 1:
            parts.append(_FOR_CALLERS.sub("", inspect.cleandoc(sys.modules[member.home].__doc__ or "")))
        return "\n\n".join(filter(None, (part.partition("\n")[2].strip() for part in parts)))

    def origin(self, name: str) -> str:
        """Return the absolute path of the file that registered an entry; "__main__" for a script or notebook."""
        return self.member(name).file

    def __contains__(self, name: str) -> bool:
        self.discover()
        return name in self._members

    def as_registered(self) -> tuple[str, ...]:
        """Return the names in the order of registration: those of the core, of contrib, and then the others.

        Names of the core and of contrib are in the order of their modules. So their order does not depend on which
        module was imported first.
        """
        self.discover()
        order = {name: (member.is_contrib, member.home) for name, member in self._members.items()}
        at_home = [name for name, (_, home) in order.items() if home]
        return (*sorted(at_home, key=order.__getitem__), *(name for name in order if name not in at_home))

    def __iter__(self) -> Iterator[str]:
        self.discover()
        return iter(sorted(self._members))


def _modules(home: str) -> list[str] | None:
    """Return the names of the modules of a package in their order; None for a package of `CONTRIB` that is missing.

    Raises:
      ModuleNotFoundError: if a module of the core is missing, or a module that the package imports.
    """
    try:
        package = importlib.import_module(home)
    except ModuleNotFoundError as error:
        if not home.startswith(CONTRIB) or not f"{home}.".startswith(f"{error.name}."):
            raise
        return None
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__))
