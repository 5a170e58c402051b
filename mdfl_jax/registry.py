"""Registries: one a family, from a name to the factory that makes the thing."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from mdfl_jax.errors import UserError, unknown_name

T = TypeVar("T")


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

    def __init__(self, kind: str):
        self.kind = kind
        self._members: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that adds a member. Its own file, or a notebook cell, may give a name again; another may not.

        Raises:
          UserError: for a name that something else has.
        """

        def add(member: T) -> T:
            held = getattr(self._members.get(name), "__module__", None)
            if held not in (None, getattr(member, "__module__", None)):
                raise UserError(f"{self.kind} {name!r} is there already, from {held}; choose another name")
            self._members[name] = member
            return member

        return add

    def __getitem__(self, name: str) -> T:
        if name not in self._members:
            raise UserError(unknown_name(self.kind, name, self._members))
        return self._members[name]

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._members))
