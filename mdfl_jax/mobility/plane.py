"""The plane, a rectangle in metres, and the function that applies a rule for one client to all clients.

A client moves in legs; each leg is straight and has a constant velocity. A rule is a function
``turn(key, client, world, plan) -> client`` of ONE client. It is called whenever a leg is over, and sets ``velocity``
and ``time_left``, and ``memory`` if it needs one. A rule need not handle the walls: a leg that meets a wall is
reflected, continues at the opposite side (wrap) or slides along the wall (clamp). A round yields the exact path, with a
breakpoint at each turn and each wall.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core import contract
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import Numbers, Setting, number
from mdfl_jax.core.rng import per_client
from mdfl_jax.core.trees import where_rows
from mdfl_jax.mobility.rule import Mobility, Path

BOUNDARIES = ("reflect", "wrap", "clamp")
REFLECT, WRAP, CLAMP = range(3)
MAX_EVENTS = 16
LATTICE_SIDE = 25  # points along a side of the lattice
_SHORTEST = 1e-4  # as a share of a round; a leg with less time left than this is over


class Motion(NamedTuple):
    """The traced numbers of the plane, in metres and seconds.

    Attributes:
      width: width of the rectangle [0, width] x [0, height].
      height: height of the rectangle.
      dt: duration of a round.
      boundary: index into `BOUNDARIES`, what happens at the walls.
      warm_up: how many rounds the clients move before the first round.
    """

    width: Any = 500.0
    height: Any = 500.0
    dt: Any = 1.0
    boundary: Any = REFLECT
    warm_up: Any = 0


def ordered(numbers: Numbers, low: str, high: str) -> None:
    """Check that one number of a mobility rule is at most another.

    Raises:
      UserError: where it is greater; the message names both.
    """
    least, most = getattr(numbers, low), getattr(numbers, high)
    if least > most:
        raise UserError(f"motion.{low} is {least}; it must be at most motion.{high}, which is {most}")


class SpeedNumbers(Numbers):
    """The numbers of rules that draw speeds uniformly."""

    speed_min: float = number(1.0, "smallest speed drawn", at_least=0, unit="m/s")
    speed_max: float = number(50.0, "largest speed drawn", at_least=0, unit="m/s")

    def check(self, setting: Setting) -> None:
        """Check that speed_min is above 0 and at most speed_max."""
        super().check(setting)
        ordered(self, "speed_min", "speed_max")
        if self.speed_min == 0:
            raise UserError(
                f"motion.speed_min is 0.0; {setting.member} needs it greater than 0, or legs of speed 0 never end"
            )


class PauseNumbers(SpeedNumbers):
    """The numbers of rules whose clients pause between legs."""

    pause_min: float = number(0.0, "shortest pause between legs", at_least=0, unit="s")
    pause_max: float = number(0.0, "longest pause between legs, 0: none", at_least=0, unit="s")

    def check(self, setting: Setting) -> None:
        """Check the speeds, and that pause_min is at most pause_max."""
        super().check(setting)
        ordered(self, "pause_min", "pause_max")


class PlaneWorld(NamedTuple):
    """The plane as a rule may use it.

    Attributes:
      size: [2] width and height in metres.
      start: [N, 2] first place of each client, drawn uniformly, in metres.
      is_mobile: [N] bool, true for the mobile clients.
      label_counts: [N, C] int32, how many samples of each label each client holds.
      radius: communication radius in metres.
      motion: the numbers of the plane, as typed arrays. ``motion.dt`` is the duration of a round.
      numbers: the numbers of the rule that reads this world, as typed arrays, in the class that it is registered with.
      trace: the `mdfl_jax.mobility.trace.Tracks` for the rules that follow a trace; None without one.
    """

    size: jax.Array
    start: jax.Array
    is_mobile: jax.Array
    label_counts: jax.Array
    radius: jax.Array
    motion: Motion
    numbers: Any = None
    trace: Any = None


class PlaneClient(NamedTuple):
    """One client, as its rule sees it. Stacked over all clients, every field has a leading axis N.

    Attributes:
      id: int32 index of the client.
      position: [2] place in metres.
      velocity: [2] metres per second, after reflections.
      time_left: seconds to the end of the leg; ``inf`` for a leg that has no end of its own.
      facing: [2] 1 or -1 for each axis; every reflection on an axis changes its sign.
      memory: a pytree of arrays that the rule keeps between legs. Its structure and types never change.
    """

    id: jax.Array
    position: jax.Array
    velocity: jax.Array
    time_left: jax.Array
    facing: jax.Array
    memory: Any


def at_rest(position: jax.Array) -> PlaneClient:
    """Make clients that stand at places [N, 2], without a leg and without memory."""
    zero, index = jnp.zeros_like(position), jnp.arange(position.shape[0], dtype=jnp.int32)
    return PlaneClient(index, position, zero, zero[:, 0], jnp.ones_like(zero), None)


def no_path(position: jax.Array, max_events: int) -> Path:
    """Make the paths of clients that stay at places [N, 2], with as many points as `travel` gives."""
    times = jnp.ones((position.shape[0], 2 * max_events + 1)).at[:, 0].set(0)
    return Path(times, jnp.repeat(position[:, None], times.shape[1], axis=1))


Turn = Callable[[jax.Array, PlaneClient, PlaneWorld, Any], PlaneClient]
_Target = Callable[[PlaneClient, PlaneWorld], jax.Array]


class PlaneState(NamedTuple):
    """The state of a rule of the plane: the clients, the rule's plan, and the path of the last round."""

    clients: PlaneClient
    plan: Any
    path: Path


class _Round(NamedTuple):
    """An unfinished round: events so far, clients, seconds left [N], the path, and the index of its last point [N]."""

    event: jax.Array
    clients: PlaneClient
    left: jax.Array
    path: Path
    last: jax.Array


def lattice(size: jax.Array) -> jax.Array:
    """Return a lattice of places over a plane of size [2], at the middles of equal cells: [`LATTICE_SIDE`^2, 2] metres.

    Strategies and the places of relays are chosen from them.
    """
    steps = (jnp.arange(LATTICE_SIDE) + 0.5) / LATTICE_SIDE
    return jnp.stack([axis.ravel() for axis in jnp.meshgrid(steps, steps, indexing="ij")], axis=1) * size


def unit(angle: jax.Array) -> jax.Array:
    """Return the unit vector [2] of an angle in radians, counterclockwise from east."""
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def between(key: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    """Draw a number uniformly from [low, high]."""
    return low + (high - low) * jax.random.uniform(key)


def fold(boundary: jax.Array, size: jax.Array, place: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Find the place that a straight movement reaches with walls, from the place it would reach without them.

    Args:
      boundary: [] index into `BOUNDARIES`.
      size: [2] width and height.
      place: [..., 2] places reached without walls.

    Returns:
      The places [..., 2] inside the rectangle, and the signs [..., 2] that reflections give to the velocity.
    """
    phase = jnp.mod(place, 2 * size)
    mirrored = jnp.where(phase > size, -1.0, 1.0)
    reflected = size - jnp.abs(phase - size)
    choices = [reflected, jnp.mod(place, size), jnp.clip(place, 0, size)]
    beyond = (place < 0) | (place > size)  # a place inside must stay the same to the last bit
    ended = jnp.where(beyond, jnp.select([boundary == b for b in range(3)], choices), place)
    return ended, jnp.where(beyond & (boundary == REFLECT), mirrored, 1.0)


def _write(path: Path, mask: jax.Array, slot: jax.Array, time: jax.Array, place: jax.Array) -> Path:
    """Write a point into the paths at each client's slot, for the clients in the mask."""
    here = mask[:, None] & (jnp.arange(path.times.shape[1]) == slot[:, None])
    return Path(jnp.where(here, time[:, None], path.times), jnp.where(here[..., None], place[:, None], path.points))


def travel(
    key: jax.Array,
    clients: PlaneClient,
    turn: Callable[[jax.Array, PlaneClient], PlaneClient],
    moves: jax.Array,
    size: jax.Array,
    dt: jax.Array | float,
    boundary: jax.Array | int,
    max_events: int,
) -> tuple[PlaneClient, Path]:
    """Move all clients for one round.

    Each straight piece of a path begins with an event: the start of the round, the start of a leg, or a wall. At a
    client's last possible event the leg continues to its own end or that of the round, whichever is first. Such a leg
    has no breakpoints at walls, but ends at the place where it would end with them. For the rest of the round the
    client stands still. So a path is exact where at most ``max_events`` events are needed. Every path stays in the
    rectangle and is no faster than its legs.

    Args:
      key: typed key of the round.
      clients: all clients, stacked.
      turn: (key, client) -> client with its next leg, for ONE client.
      moves: [N] bool, true for the clients that move. The others stand still.
      size: [2] width and height in metres.
      dt: duration of the round in seconds.
      boundary: index into `BOUNDARIES`.
      max_events: the largest number of events of a client, at least 1.

    Returns:
      The clients after the round, and their paths, which have 2 max_events + 1 points each.
    """
    num_clients = clients.position.shape[0]
    shape = (num_clients, 2 * max_events + 1)
    zero = jnp.zeros(num_clients)
    path = Path(jnp.zeros(shape), jnp.broadcast_to(clients.position[:, None], (*shape, 2)))
    start = _Round(jnp.int32(0), clients, jnp.where(moves, dt, zero), path, jnp.zeros(num_clients, jnp.int32))

    def unfinished(r: _Round) -> jax.Array:
        return (r.event < max_events) & jnp.any(r.left > 0)

    def one_event(r: _Round) -> _Round:
        active = r.left > 0
        keys = per_client(jax.random.fold_in(key, r.event), num_clients)
        client = where_rows(active & (r.clients.time_left <= 0), jax.vmap(turn)(keys, r.clients), r.clients)
        velocity, place = client.velocity, client.position

        outwards = ((place <= 0) & (velocity < 0)) | ((place >= size) & (velocity > 0))
        jumps = active & jnp.any(outwards & (boundary == WRAP), axis=1)
        place = jnp.where(outwards & (boundary == WRAP) & active[:, None], jnp.where(velocity > 0, 0.0, size), place)
        turned = outwards & (boundary == REFLECT)
        velocity = jnp.where(turned, -velocity, jnp.where(outwards & (boundary == CLAMP), 0.0, velocity))
        facing = jnp.where(turned, -client.facing, client.facing)

        wall = jnp.where(velocity > 0, size, 0.0)
        to_wall = jnp.where(velocity == 0, jnp.inf, (wall - place) / jnp.where(velocity == 0, 1.0, velocity))
        is_last = r.event == max_events - 1
        until = jnp.where(is_last, jnp.inf, jnp.min(to_wall, axis=1))
        use = jnp.minimum(jnp.minimum(r.left, client.time_left), until)
        ended, sign = fold(jnp.asarray(boundary), size, place + velocity * use[:, None])
        moved = jnp.where(to_wall <= use[:, None], wall, jnp.clip(place + velocity * use[:, None], 0, size))
        moved = jnp.where(is_last, ended, moved)
        sign = jnp.where(is_last, sign, 1.0)

        # By rounding, a client may reach a wall just before the end of its leg. The leg is then over, so that the wall
        # does not reflect the client for the tiny rest of it.
        rest = client.time_left - use
        rest = jnp.where(rest < _SHORTEST * dt, 0.0, rest)
        left = r.left - use
        path = _write(r.path, jumps, r.last + 1, (dt - r.left) / dt, place)
        slot = r.last + 1 + jumps
        path = _write(path, active, slot, (dt - left) / dt, moved)
        new = client._replace(position=moved, velocity=velocity * sign, facing=facing * sign, time_left=rest)
        return _Round(
            event=r.event + 1,
            clients=where_rows(active, new, client),
            left=jnp.where(active, left, r.left),
            path=path,
            last=jnp.where(active, slot, r.last),
        )

    end = jax.lax.while_loop(unfinished, one_event, start)
    rest = jnp.arange(shape[1]) > end.last[:, None]
    times = jnp.where(rest, 1.0, end.path.times)
    return end.clients, Path(times, jnp.where(rest[..., None], end.clients.position[:, None], end.path.points))


def _heading(target: _Target | None, everyone: bool) -> Callable[[PlaneWorld, PlaneState], jax.Array] | None:
    """Return the places for which all clients are heading, [N, 2] (`Mobility.destination`), from the rule's target."""
    if target is None:
        return None

    def destination(world: PlaneWorld, state: PlaneState) -> jax.Array:
        places = jax.vmap(lambda client: target(client, world))(state.clients)
        return jnp.where((world.is_mobile | everyone)[:, None], places, jnp.nan)

    return destination


def plane_mobility(
    turn: Turn,
    start: Turn = lambda key, client, world, plan: client,
    prepare: Callable[[jax.Array, PlaneWorld], Any] = lambda key, world: None,
    advance: Callable[[jax.Array, PlaneWorld, Any], Any] = lambda key, world, plan: plan,
    everyone: bool = False,
    each_round: bool = False,
    max_events: int = MAX_EVENTS,
    target: _Target | None = None,
) -> Mobility:
    """Make the movement of all clients from a rule for one client.

    Args:
      turn: (key, client, world, plan) -> client with its next leg, for ONE client.
      start: (key, client, world, plan) -> client before the first round, for ONE client. It receives the client at
        rest, at ``world.start`` and without memory.
      prepare: (key, world) -> plan, called once before the first round.
      advance: (key, world, plan) -> plan, called when the movement of each round begins.
      everyone: whether the clients that are not mobile move too.
      each_round: whether each leg lasts one round. Then ``turn`` is called once per round and need not set
        ``time_left``.
      max_events: how many legs and walls of a client fit in a round; `travel` says what happens beyond.
      target: (client, world) -> [2] the place for which ONE client is heading, NaN while it rests; None: clients of
        this rule have no destinations. It is only recorded, for maps.

    Returns:
      The mobility rule, in the world ``plane``.
    """

    def step(key: jax.Array, world: PlaneWorld, state: PlaneState) -> PlaneState:
        key_plan, key_turn = jax.random.split(key)
        plan = advance(key_plan, world, state.plan)
        moves = jnp.ones_like(world.is_mobile) if everyone else world.is_mobile
        motion, clients = world.motion, state.clients

        def one(k: jax.Array, client: PlaneClient) -> PlaneClient:
            turned = turn(k, client, world, plan)
            contract.like(turn, turned, client)
            return turned._replace(time_left=jnp.full_like(client.time_left, jnp.inf)) if each_round else turned

        if each_round:
            clients = clients._replace(time_left=jnp.zeros_like(clients.time_left))
        clients, path = travel(key_turn, clients, one, moves, world.size, motion.dt, motion.boundary, max_events)
        return PlaneState(clients, plan, path)

    def init(key: jax.Array, world: PlaneWorld) -> PlaneState:
        key_plan, key_start, key_warm = jax.random.split(key, 3)
        num_clients = world.start.shape[0]
        plan = prepare(key_plan, world)
        keys, begin = per_client(key_start, num_clients), lambda k, client: start(k, client, world, plan)
        clients = jax.vmap(begin)(keys, at_rest(world.start))
        state = PlaneState(clients, plan, no_path(clients.position, max_events))
        warm = lambda i, s: step(jax.random.fold_in(key_warm, i), world, s)  # noqa: E731
        return jax.lax.fori_loop(0, world.motion.warm_up, warm, state)

    position, path = lambda world, state: state.clients.position, lambda world, state: state.path
    return Mobility(init, step, position, world="plane", path=path, destination=_heading(target, everyone))
