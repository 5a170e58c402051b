"""Registries: one a family, from a name to the factory that makes the thing, its numbers and what it is in a line."""

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from mdfl_jax.errors import UserError, unknown_name

if TYPE_CHECKING:  # a report is made without JAX, which numbers need
    from mdfl_jax.numbers import Numbers

T = TypeVar("T")


def _origin() -> str:
    """The file that registers something, or the notebook: the first caller that is no registry itself."""
    frame = sys._getframe(1)
    while frame.f_back and os.path.basename(frame.f_code.co_filename) == "registry.py":
        frame = frame.f_back
    return "__main__" if frame.f_globals.get("__name__") == "__main__" else frame.f_code.co_filename


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
    mdfl_jax.errors.UserError: unknown greeting 'helo' (did you mean 'hello'?); known: hello
    """

    def __init__(self, kind: str, numbers: "type[Numbers] | None" = None):
        self.kind, self._usual = kind, numbers
        self._members: dict[str, T] = {}
        self._numbers: dict[str, type[Numbers] | None] = {}
        self._docs: dict[str, str] = {}
        self._origins: dict[str, str] = {}

    def register(self, name: str, numbers: "type[Numbers] | None" = None, doc: str = "") -> Callable[[T], T]:
        """Decorator that adds a member. Its own file, or a notebook cell, may give a name again; another may not.

        Args:
          name: in configurations.
          numbers: the class of its numbers; those that are usual in the family where left out.
          doc: what it is, in a line; the first line of its docstring where left out.

        Raises:
          UserError: for a name that something else has.
        """

        origin = _origin()

        def add(member: T) -> T:
            held = self._origins.get(name, origin) if name in self._members else origin
            if held != origin:
                raise UserError(f"{self.kind} {name!r} is there already, from {held}; choose another name")
            self._members[name], self._numbers[name], self._origins[name] = member, numbers, origin
            self._docs[name] = doc or (getattr(member, "__doc__", None) or "").split("\n")[0].strip()
            return member

        return add

    def __getitem__(self, name: str) -> T:
        if name not in self._members:
            raise UserError(unknown_name(self.kind, name, self._members))
        return self._members[name]

    def numbers(self, name: str) -> "type[Numbers]":
        """The class of a member's numbers.

        Raises:
          UserError: for an unknown name; the nearest is suggested.
        """
        self[name]
        return self._numbers[name] or self.usual

    @property
    def usual(self) -> "type[Numbers]":
        """The class of the numbers of members that bring none of their own."""
        from mdfl_jax.numbers import Numbers

        return self._usual or Numbers

    def doc(self, name: str) -> str:
        """What a member is, in a line."""
        self[name]
        return self._docs[name]

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def as_registered(self) -> tuple[str, ...]:
        """The names in the order of their registration."""
        return tuple(self._members)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._members))
