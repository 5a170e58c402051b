"""Registries: one for each family. A registry maps a name to a factory, its numbers and a one-line description."""

import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from mdfl_jax.core.errors import UserError, unknown_name

if TYPE_CHECKING:  # numbers import JAX, and reports are made without JAX
    from mdfl_jax.core.numbers import Numbers

T = TypeVar("T")


class Origin(NamedTuple):
    """Where a member is registered: its module, and its file, "__main__" for a script or notebook."""

    module: str
    file: str


def caller() -> Origin:
    """Return the origin of the code that called the function which calls this one."""
    frame = sys._getframe(2)
    module = str(frame.f_globals.get("__name__"))
    return Origin(module, module if module == "__main__" else os.path.abspath(frame.f_code.co_filename))


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

    def __init__(self, kind: str, numbers: "type[Numbers] | None" = None, home: str | tuple[str, ...] = ()):
        """Make an empty registry.

        Args:
          kind: the family in words, for error messages.
          numbers: the class of numbers of members that are registered without one of their own.
          home: the package whose modules register the members, or several packages. They are imported at the first
            look-up, so a new file there is a new member.
        """
        self.kind, self._usual = kind, numbers
        self._homes = (home,) if isinstance(home, str) else home
        self._is_complete = False
        self._members: dict[str, T] = {}
        self._numbers: dict[str, type[Numbers] | None] = {}
        self._docs: dict[str, str] = {}
        self._origins: dict[str, str] = {}
        self._at_home: dict[str, str] = {}  # the module of a member that is registered in a home

    def register(
        self, name: str, numbers: "type[Numbers] | None" = None, doc: str = "", origin: Origin | None = None
    ) -> Callable[[T], T]:
        """Return a decorator that adds a member.

        The same file, or the same notebook, may register a name again; another file may not.

        Args:
          name: the member's name in configurations.
          numbers: the class of its numbers; by default the usual class of the family.
          doc: its description in one line; by default the first line of its docstring.
          origin: where the member is registered; by default where this function is called. A decorator of a family
            passes on its own `caller`.

        Raises:
          UserError: for a name that a member of another file has (raised when the decorator is applied).
        """
        module, file = origin or caller()
        is_at_home = module.startswith(tuple(f"{home}." for home in self._homes))
        if not is_at_home:  # the modules of a home may be imported in any order
            self.discover()

        def add(member: T) -> T:
            held = self._origins.get(name, file) if name in self._members else file
            if held != file:
                raise UserError(f"{self.kind} {name!r} is there already, from {held}; choose another name")
            self._members[name], self._numbers[name], self._origins[name] = member, numbers, file
            self._docs[name] = doc or (getattr(member, "__doc__", None) or "").split("\n")[0].strip()
            if is_at_home:
                self._at_home[name] = module
            return member

        return add

    def remove(self, name: str) -> None:
        """Remove a member, so that its name is unknown again."""
        for table in (self._members, self._numbers, self._docs, self._origins, self._at_home):
            table.pop(name, None)

    def discover(self) -> None:
        """Import the modules of the family's homes, in the order of their names. They register their members."""
        if not self._is_complete:
            self._is_complete = True  # a member's module may look up others
            try:
                for home in self._homes:
                    modules = pkgutil.iter_modules(importlib.import_module(home).__path__)
                    for name in sorted(module.name for module in modules):
                        importlib.import_module(f"{home}.{name}")
            except BaseException:  # an interrupt too: the next look-up finds the others
                self._is_complete = False
                raise

    def __getitem__(self, name: str) -> T:
        self.discover()
        if name not in self._members:
            raise UserError(self.unknown(name))
        return self._members[name]

    def unknown(self, name: str) -> str:
        """Return the error line for a name that no member has."""
        return unknown_name(self.kind, name, self)

    def numbers(self, name: str) -> "type[Numbers]":
        """Return the class of a member's numbers.

        Raises:
          UserError: for an unknown name; the message suggests the most similar one.
        """
        self[name]
        return self._numbers[name] or self.usual

    @property
    def usual(self) -> "type[Numbers]":
        """The class of numbers for members that are registered without a class of their own."""
        from mdfl_jax.core.numbers import Numbers

        return self._usual or Numbers

    def doc(self, name: str) -> str:
        """Return the one-line description of a member."""
        self[name]
        return self._docs[name]

    def origin(self, name: str) -> str:
        """Return the absolute path of the file that registered a member; "__main__" for a script or notebook."""
        self[name]
        return self._origins[name]

    def __contains__(self, name: str) -> bool:
        self.discover()
        return name in self._members

    def as_registered(self) -> tuple[str, ...]:
        """Return the names in the order of their registration: first those of the homes, by module, then the others.

        So the order does not depend on which module of a home was imported first.
        """
        self.discover()
        here = sorted((name for name in self._members if name in self._at_home), key=self._at_home.__getitem__)
        return (*here, *(name for name in self._members if name not in self._at_home))

    def __iter__(self) -> Iterator[str]:
        self.discover()
        return iter(sorted(self._members))
