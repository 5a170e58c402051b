"""The interface of a mobility rule, the same in every world, and the words for worlds and for what clients know."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.numbers import Numbers
from mdfl_jax.core.sharding import stacked
from mdfl_jax.core.trees import rows_like

WorldKind = Literal["grid", "plane", "trace", "contacts"]
WORLDS: dict[WorldKind, str] = {
    "grid": "grid",
    "plane": "plane",
    "trace": "plane of a trace",
    "contacts": "world of a contact list",
}
"""The worlds in which clients move, `network.world`, and their names in sentences."""
PROGRAMS: dict[WorldKind, WorldKind] = {"grid": "grid", "plane": "plane", "trace": "plane", "contacts": "contacts"}
"""The world whose program a world takes. A trace moves clients in a plane, so they share one."""
FILES: dict[WorldKind, str] = {"trace": "places", "contacts": "a contact list"}
"""The worlds that a file gives (`trace.file`), and what it must hold."""

ORACLE, MET, EXPLORED = KNOWLEDGE = ("oracle", "met", "explored")
"""What a mobile client knows of the static clients, `motion.knowledge`: the places and data of all of them; of those
that it has met or been told of; or of those that it has met, while it remembers where it has been and looks for others.
"""


class Path(NamedTuple):
    """The piecewise linear paths of the clients in one round.

    Attributes:
      times: [N, K] times as shares of the round, non-decreasing from 0 to 1.
      points: [N, K, 2] places at these times. Two different places at the same time are a jump.
    """

    times: jax.Array
    points: jax.Array


class Presence(NamedTuple):
    """Which clients are present. An absent client trains, but meets nobody.

    Attributes:
      now: [N] bool, true for clients that are present now.
      throughout: [N] bool, true for clients that were present when the last round's movement began and when it ended.
    """

    now: jax.Array
    throughout: jax.Array


class Mobility(NamedTuple):
    """A mobility rule, as pure functions over all clients.

    Attributes:
      init: (key, world) -> state before the first round. A leaf of N rows has one for each client (`held`).
      step: (key, world, state) -> state after one round's movement; ``key`` is the key of that round.
      position: (world, state) -> [N, 2] places.
      world: the world that the rule lives in. All rules of one network live in one world; a trace counts as the
        plane.
      path: (world, state) -> the paths of the last round. None means straight paths from place to place.
      presence: (world, state) -> which clients are present. None means that all are always present.
      is_mobile: (world) -> [N] bool, which clients ever move. None takes the world's ``is_mobile``.
      destination: (world, state) -> [N, 2] the place for which each client is heading; NaN for a client that has no
        destination or stands at it. None means that clients of this rule have none. Destinations are only recorded, for
        maps.
      centres: (world, state) -> [N, 2] the places of the cluster centres of which destinations are chosen, in the first
        rows; NaN in the others. None means that there are none. Centres are only recorded, for maps.
      compare: (state, heard [N, N] bool, differences [N, N] float32) -> state, called at the end of a round with who
        received from whom, and the distances of the models before the round. None: movement does not depend on models.
      height: (world, state) -> [N] float32 heights in metres, NaN where nothing says them. It is called if the world's
        trace has heights. None means that the rule knows none.
      still: whether nobody ever moves, so that links stay the same.
      relays: whether clients may be relays, which stand where `mdfl_jax.networks.worlds` puts them; false if all
        clients move, or if the rule gives the places of all.
    """

    init: Callable[[jax.Array, Any], Any]
    step: Callable[[jax.Array, Any, Any], Any]
    position: Callable[[Any, Any], jax.Array]
    world: WorldKind = "grid"
    path: Callable[[Any, Any], Path] | None = None
    presence: Callable[[Any, Any], Presence] | None = None
    is_mobile: Callable[[Any], jax.Array] | None = None
    destination: Callable[[Any, Any], jax.Array] | None = None
    centres: Callable[[Any, Any], jax.Array] | None = None
    compare: Callable[[Any, jax.Array, jax.Array], Any] | None = None
    height: Callable[[Any, Any], jax.Array] | None = None
    still: bool = False
    relays: bool = True


def held(stands: jax.Array, before: Any, after: Any) -> Any:
    """Return the state of a rule after a movement in which some clients stood still.

    Args:
      stands: [N] bool, the clients that stood still. All that the rule keeps of them is what it was.
      before, after: the state before the movement, and after the movement of all clients. Leaves of N rows have one for
        each client. A field ``plan`` belongs to no client, and goes on.

    >>> held(jnp.array([True, False]), jnp.zeros(2), jnp.ones(2)).tolist()
    [0.0, 1.0]
    """
    rows = stacked(after, stands.shape[0])
    kept = jax.tree.map(
        lambda of_client, new, old: jnp.where(rows_like(stands, new), old, new) if of_client else new,
        rows,
        after,
        before,
    )
    return kept._replace(plan=after.plan) if hasattr(after, "plan") else kept


class Form(NamedTuple):
    """A mobility rule in one world and with one knowledge.

    Attributes:
      make: () -> the rule.
      world: the world that the rule then lives in.
      knowledge: one of `KNOWLEDGE`; empty if the rule knows nothing of the static clients, so that it has no effect.
      numbers: the class of its numbers.
    """

    make: Callable[[], Mobility]
    world: WorldKind
    knowledge: str = ""
    numbers: type[Numbers] = Numbers

    @property
    def rule(self) -> str:
        """What error messages call a form that is used without a name, as they call a movement by its rule."""
        return "an unregistered rule"


def straight(start: jax.Array, end: jax.Array) -> Path:
    """Make straight paths from one set of places, [N, 2], to another, [N, 2]."""
    times = jnp.broadcast_to(jnp.array([0.0, 1.0], start.dtype), (start.shape[0], 2))
    return Path(times, jnp.stack([start, end], axis=1))


def path_length(path: Path) -> jax.Array:
    """Compute the lengths of the paths: [N]. Jumps, which take no time, do not count."""
    steps = jnp.sqrt(jnp.sum(jnp.square(jnp.diff(path.points, axis=1)), axis=-1))
    return jnp.sum(jnp.where(jnp.diff(path.times, axis=1) > 0, steps, 0), axis=1)


def padded(path: Path, num_points: int) -> Path:
    """Pad paths to ``num_points`` points each, with copies of their last point."""
    extra = num_points - path.times.shape[1]
    repeat = lambda x: jnp.concatenate([x, jnp.repeat(x[:, -1:], extra, axis=1)], axis=1)  # noqa: E731
    return Path(repeat(path.times), repeat(path.points))
