"""Registries: one for each family. A registry maps a name to a factory, its numbers and what is said of it.

A member says of itself, once and in its own file, what it is (its docstring), its formula, and which papers to cite.
`mdfl info`, the pages of the families and `mdfl cite` are made from this.
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
CONTRIB = "mdfl_jax.contrib"  # the package of what the core can do without; it may be missing
_FOR_CALLERS = re.compile(r"\n\s*\n(?:Args|Attributes|Raises|Returns|Yields|>>> ).*", re.DOTALL)  # of a docstring


class Origin(NamedTuple):
    """Where a member is registered: its module, and its file, "__main__" for a script or notebook."""

    module: str
    file: str


def caller() -> Origin:
    """Return the origin of the code that called the function which calls this one."""
    frame = sys._getframe(2)
    module = str(frame.f_globals.get("__name__"))
    return Origin(module, module if module == "__main__" else os.path.abspath(frame.f_code.co_filename))


class Member(NamedTuple):
    """What a registry knows of a member.

    Attributes:
      value: the factory, or whatever the family registers.
      numbers: the class of its numbers; None: the usual one of the family.
      text: its description, whose first line says what it is.
      formula: what it computes, in the symbols of the family.
      cite: the papers that describe it (`mdfl_jax.core.papers.cited`).
      traits: what else it says of itself, a record of the family's class; None: the usual one of the family.
      file: the absolute path of the file that registered it; "__main__" for a script or notebook.
      home: its module, if this is in a home of the family; else "".
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
        """Whether the member is in `CONTRIB`, and so no part of the core."""
        return self.home.startswith(f"{CONTRIB}.")


class Registry(Generic[T]):
    """The members of one family, by name.

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
          kind: the family in words, for error messages.
          numbers: the class of numbers of members that are registered without one of their own.
          home: the package whose modules register the members, or several packages. They are imported at the first
            look-up, so a new file there is a new member.
          traits: the traits of members that are registered without traits of their own.
          contrib: the package in `CONTRIB` that is a further home, such as "algorithms", or several. It may be missing.
        """
        self.kind, self._usual, self._traits = kind, numbers, traits
        self._homes = (home,) if isinstance(home, str) else home
        self._homes += tuple(f"{CONTRIB}.{name}" for name in ((contrib,) if isinstance(contrib, str) else contrib))
        self._missing: list[str] = []  # the homes in `CONTRIB` that are not there
        self._is_complete = False
        self._looking: set[int] = set()  # the threads that are importing the members
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
        """Return a decorator that adds a member.

        The same file, or the same notebook, may register a name again; another file may not.

        Args:
          name: the member's name in configurations.
          numbers: the class of its numbers; by default the usual class of the family.
          doc: its description, whose first line says what it is; by default its docstring.
          origin: where the member is registered; by default where this function is called. A decorator of a family
            passes on its own `caller`.
          formula, cite, traits: as in `Member`.

        Raises:
          UserError: for a name that a member of another file has (raised when the decorator is applied).
        """
        module, file = origin or caller()
        is_at_home = module.startswith(tuple(f"{home}." for home in self._homes))
        if not is_at_home:  # the modules of a home may be imported in any order
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
        """Remove a member, so that its name is unknown again."""
        self._members.pop(name, None)

    def discover(self) -> None:
        """Import the modules of the family's homes, in the order of their names. They register their members."""
        thread = threading.get_ident()
        if self._is_complete or thread in self._looking:  # a member's module may look up others
            return
        self._looking.add(thread)  # another thread, which needs all members, imports the same modules and so waits
        self._missing.clear()  # of a look-up that was interrupted
        try:
            for home in self._homes:
                if (names := _modules(home)) is None:
                    self._missing.append(home)
                for name in names or ():
                    importlib.import_module(f"{home}.{name}")
            self._is_complete = True
        finally:  # after an interrupt too: the next look-up finds the others
            self._looking.discard(thread)

    def __getitem__(self, name: str) -> T:
        return self.member(name).value

    def member(self, name: str) -> Member:
        """Return all that the registry knows of a member.

        Raises:
          UserError: for an unknown name; the message suggests the most similar one.
        """
        self.discover()
        if name not in self._members:
            raise UserError(self.unknown(name))
        return self._members[name]

    def unknown(self, name: str) -> str:
        """Return the error line for a name that no member has. It names the homes that are missing."""
        return f"{unknown_name(self.kind, name, self)}{self.lacks()}"

    def lacks(self) -> str:
        """Return the end of an error line, with the homes in `CONTRIB` that are missing; "" if all are there."""
        self.discover()
        return f"; not installed: {', '.join(self._missing)}" if self._missing else ""

    def numbers(self, name: str) -> "type[Numbers]":
        """Return the class of a member's numbers.

        Raises:
          UserError: for an unknown name; the message suggests the most similar one.
        """
        return self.member(name).numbers or self.usual

    def traits(self, name: str) -> Any:
        """Return the traits of a member, a record of the family's class.

        Raises:
          UserError: for an unknown name; the message suggests the most similar one.
        """
        found = self.member(name).traits
        return self._traits if found is None else found

    @property
    def usual(self) -> "type[Numbers]":
        """The class of numbers for members that are registered without a class of their own."""
        from mdfl_jax.core.numbers import Numbers

        return self._usual or Numbers

    def doc(self, name: str) -> str:
        """Return the one-line description of a member."""
        return self.member(name).text.partition("\n")[0]

    def told(self, name: str) -> str:
        """Return the whole description of a member, behind its first line.

        If the module of the member registers no other one of this family, its docstring is a part of it.
        """
        member = self.member(name)
        parts = [member.text]
        if member.home and [other.home for other in self._members.values()].count(member.home) == 1:
            parts.append(_FOR_CALLERS.sub("", inspect.cleandoc(sys.modules[member.home].__doc__ or "")))
        return "\n\n".join(filter(None, (part.partition("\n")[2].strip() for part in parts)))

    def origin(self, name: str) -> str:
        """Return the absolute path of the file that registered a member; "__main__" for a script or notebook."""
        return self.member(name).file

    def __contains__(self, name: str) -> bool:
        self.discover()
        return name in self._members

    def as_registered(self) -> tuple[str, ...]:
        """Return the names in the order of their registration: those of the core, of contrib, and then the others.

        Those of the core and of contrib are in the order of their modules. So the order does not depend on which module
        of a home was imported first.
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
      ModuleNotFoundError: if a module of the core is missing, or one that the package imports.
    """
    try:
        package = importlib.import_module(home)
    except ModuleNotFoundError as error:
        if not home.startswith(CONTRIB) or not f"{home}.".startswith(f"{error.name}."):
            raise
        return None
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__))
