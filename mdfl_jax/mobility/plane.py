"""The continuous world: a rectangle in metres, and how a rule written for one client becomes the movement of all.

A client moves in legs, straight and at constant velocity. A rule is a function ``turn(key, client, world, plan) ->
client`` of ONE client, asked whenever a leg is over: it sets ``velocity`` and ``time_left``, and ``memory`` as it
likes. The walls are the world's business: a leg that meets one is reflected, goes on at the opposite side (wrap) or
slides along it (clamp). What comes of a round is the exact path, a breakpoint at each turn and wall.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.errors import UserError
from mdfl_jax.mobility.rule import Mobility, Path
from mdfl_jax.numbers import Numbers, Setting, number
from mdfl_jax.rng import per_client
from mdfl_jax.rows import where_rows

BOUNDARIES = ("reflect", "wrap", "clamp")
REFLECT, WRAP, CLAMP = range(3)
MAX_EVENTS = 16
SHORTEST = 1e-4  # share of a round; what is left of a leg below it is dropped


class Motion(NamedTuple):
    """The numbers of the plane, traced. Metres and seconds.

    Attributes:
      width: of the rectangle [0, width] x [0, height].
      height: see width.
      dt: duration of a round.
      boundary: index into `BOUNDARIES`.
      warm_up: rounds moved before the first one.
    """

    width: Any = 500.0
    height: Any = 500.0
    dt: Any = 1.0
    boundary: Any = REFLECT
    warm_up: Any = 0


def ordered(numbers: Numbers, low: str, high: str) -> None:
    """Checks that one number of a mobility rule is at most another.

    Raises:
      UserError: naming both.
    """
    least, most = getattr(numbers, low), getattr(numbers, high)
    if least > most:
        raise UserError(f"motion.{low} is {least}; it must be at most motion.{high}, which is {most}")


class SpeedNumbers(Numbers):
    """Of rules that draw speeds uniformly."""

    speed_min: float = number(1.0, "smallest speed drawn", at_least=0, unit="m/s")
    speed_max: float = number(50.0, "largest speed drawn", at_least=0, unit="m/s")

    def check(self, setting: Setting) -> None:
        """Speeds in order, and none of zero."""
        ordered(self, "speed_min", "speed_max")
        if self.speed_min == 0:
            raise UserError(
                f"motion.speed_min is 0.0; {setting.member} needs it greater than 0, or legs of speed 0 never end"
            )


class PauseNumbers(SpeedNumbers):
    """Of rules whose clients pause between legs."""

    pause_min: float = number(0.0, "shortest pause between legs", at_least=0, unit="s")
    pause_max: float = number(0.0, "longest pause between legs, 0: none", at_least=0, unit="s")

    def check(self, setting: Setting) -> None:
        """Pauses in order too."""
        super().check(setting)
        ordered(self, "pause_min", "pause_max")


class PlaneWorld(NamedTuple):
    """What a rule may know of the world.

    Attributes:
      size: [2] width and height, metres.
      start: [N, 2] first place of each client, uniform.
      is_mobile: [N] bool.
      label_counts: [N, C] int32 samples of each label that each client holds.
      radius: communication radius, metres.
      motion: the numbers of the plane, typed; ``motion.dt`` is the duration of a round.
      numbers: those of the rule that looks, typed; of the class that it is registered with.
      trace: the `mdfl_jax.mobility.trace.Tracks` of the rules that follow a trace, if any.
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
    """One client, as its rule sees it; stacked over clients every field gains a leading N.

    Attributes:
      id: int32 which client it is.
      position: [2] metres.
      velocity: [2] metres a second, after reflection.
      time_left: seconds to the end of the leg; ``inf`` where it lasts until the world ends it.
      facing: [2] 1 or -1 an axis: whether reflections have turned it round since the start.
      memory: whatever the rule keeps, a pytree of arrays; its structure and types never change.
    """

    id: jax.Array
    position: jax.Array
    velocity: jax.Array
    time_left: jax.Array
    facing: jax.Array
    memory: Any


Turn = Callable[[jax.Array, PlaneClient, PlaneWorld, Any], PlaneClient]


class PlaneState(NamedTuple):
    """The clients, what their rule prepared, and how they moved in the last round."""

    clients: PlaneClient
    plan: Any
    path: Path


class _Round(NamedTuple):
    """A round under way: events so far, clients, seconds left [N], the path, and its points so far less one [N]."""

    event: jax.Array
    clients: PlaneClient
    left: jax.Array
    path: Path
    last: jax.Array


def unit(angle: jax.Array) -> jax.Array:
    """[2] the direction of an angle in radians, counterclockwise from east."""
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def between(key: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    """A number drawn uniformly in [low, high]."""
    return low + (high - low) * jax.random.uniform(key)


def fold(boundary: jax.Array, size: jax.Array, place: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Where a straight line without walls ends up among them: the place, and the sign of each axis' direction."""
    phase = jnp.mod(place, 2 * size)
    mirrored = jnp.where(phase > size, -1.0, 1.0)
    reflected = size - jnp.abs(phase - size)
    choices = [reflected, jnp.mod(place, size), jnp.clip(place, 0, size)]
    beyond = (place < 0) | (place > size)  # inside, the place is as it was to the last bit
    ended = jnp.where(beyond, jnp.select([boundary == b for b in range(3)], choices), place)
    return ended, jnp.where(beyond & (boundary == REFLECT), mirrored, 1.0)


def _write(path: Path, mask: jax.Array, slot: jax.Array, time: jax.Array, place: jax.Array) -> Path:
    """The paths with a point at each client's slot, where the client is in the mask."""
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
    """One round of all clients.

    An event is a leg's beginning or a wall. At a client's last event of a round the leg runs on to its end, or the
    round's, without a breakpoint where it meets walls (the end is where it would have got with them), and the rest of
    the round it stands still. So a path is exact where fewer than ``max_events`` events are needed, and in any case
    stays in the rectangle and is no faster than its legs.

    Args:
      key: of the round.
      clients: stacked.
      turn: (key, client) -> client with its next leg, for ONE client.
      moves: [N] bool; the others stand still.
      size: [2].
      dt: duration of the round.
      boundary: index into `BOUNDARIES`.
      max_events: at least 1; the path has 2 max_events + 1 points.
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

        # A wall reached just before the leg's end, by rounding, must not turn the client for what is left of it.
        rest = client.time_left - use
        rest = jnp.where(rest < SHORTEST * dt, 0.0, rest)
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


def plane_mobility(
    turn: Turn,
    start: Turn = lambda key, client, world, plan: client,
    prepare: Callable[[jax.Array, PlaneWorld], Any] = lambda key, world: None,
    advance: Callable[[jax.Array, PlaneWorld, Any], Any] = lambda key, world, plan: plan,
    everyone: bool = False,
    each_round: bool = False,
    max_events: int = MAX_EVENTS,
) -> Mobility:
    """The movement of all clients from the rule of one.

    Args:
      turn: (key, client, world, plan) -> client with its next leg, for ONE client.
      start: (key, client, world, plan) -> client before the first round, for ONE client: at ``world.start``, at rest,
        without memory unless this gives it one.
      prepare: (key, world) -> plan, made once before the first round.
      advance: (key, world, plan) -> plan at the beginning of each round's movement.
      everyone: whether the clients that are not mobile move too.
      each_round: whether a leg ends with its round, so that ``turn`` is asked once a round; it leaves ``time_left``.
      max_events: legs and walls of a client in a round; see `travel` for what happens beyond.
    """

    def step(key: jax.Array, world: PlaneWorld, state: PlaneState) -> PlaneState:
        key_plan, key_turn = jax.random.split(key)
        plan = advance(key_plan, world, state.plan)
        moves = jnp.ones_like(world.is_mobile) if everyone else world.is_mobile
        motion, clients = world.motion, state.clients

        def one(k: jax.Array, client: PlaneClient) -> PlaneClient:
            turned = turn(k, client, world, plan)
            return turned._replace(time_left=jnp.full_like(client.time_left, jnp.inf)) if each_round else turned

        if each_round:
            clients = clients._replace(time_left=jnp.zeros_like(clients.time_left))
        clients, path = travel(key_turn, clients, one, moves, world.size, motion.dt, motion.boundary, max_events)
        return PlaneState(clients, plan, path)

    def init(key: jax.Array, world: PlaneWorld) -> PlaneState:
        key_plan, key_start, key_warm = jax.random.split(key, 3)
        num_clients = world.start.shape[0]
        plan = prepare(key_plan, world)
        index, zero = jnp.arange(num_clients, dtype=jnp.int32), jnp.zeros_like(world.start)
        clients = PlaneClient(index, world.start, zero, zero[:, 0], jnp.ones_like(zero), None)
        clients = jax.vmap(lambda k, c: start(k, c, world, plan))(per_client(key_start, num_clients), clients)
        times = jnp.ones((num_clients, 2 * max_events + 1)).at[:, 0].set(0)
        state = PlaneState(clients, plan, Path(times, jnp.repeat(clients.position[:, None], times.shape[1], axis=1)))
        warm = lambda i, s: step(jax.random.fold_in(key_warm, i), world, s)  # noqa: E731
        return jax.lax.fori_loop(0, world.motion.warm_up, warm, state)

    def position(world: PlaneWorld, state: PlaneState) -> jax.Array:
        del world
        return state.clients.position

    return Mobility(init, step, position, world="plane", path=lambda world, state: state.path)
