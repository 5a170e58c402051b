"""Random walk with bouncing in two speed groups, as in the thesis on mobility in decentralized learning.

In each round a client draws one of the directions up, down, left and right. It moves in this direction at its own
constant speed and bounces off the walls.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import Numbers, Setting, number
from mdfl_jax.mobility.grid import sample_index
from mdfl_jax.mobility.plane import REFLECT, PlaneClient, PlaneWorld, between, plane_mobility, travel
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility

MAX_BOUNCES = 15  # of a client in a round, and the default of `bounce` where its velocities are traced
LARGEST_BOUNCES = 1000


def _bounces_needed(velocity: jax.Array, size: jax.Array) -> int:
    """Bound how many walls any client meets in one unit of time. The bound is at most one too large for each axis.

    Raises:
      UserError: for numbers that are not finite, or more than `LARGEST_BOUNCES` walls.
    """
    ratio = np.abs(np.asarray(velocity, np.float64)) / np.asarray(size, np.float64)
    if not np.isfinite(ratio).all():
        raise UserError("velocity and size must be finite, and size above 0")
    needed = math.ceil(np.max(np.sum(np.ceil(ratio), axis=-1), initial=0))
    if needed > LARGEST_BOUNCES:
        raise UserError(f"a client meets {needed} walls in a unit of time; they must be at most {LARGEST_BOUNCES}")
    return needed


def bounce(
    position: jax.Array, velocity: jax.Array, size: jax.Array, max_bounces: int | None = None
) -> tuple[jax.Array, jax.Array]:
    """Move clients straight in [0, w] x [0, h] for one unit of time, with bouncing (thesis eqs. 1 and 2).

    A wall reverses the velocity component that points into it, so the speed stays constant. The thesis reverses the
    velocity at the sampled instant whose place would be outside. Here it is reversed at the wall itself, which is the
    limit of fine sampling.

    Args:
      position: [N, 2] places inside the rectangle, in metres.
      velocity: [N, 2] metres per unit of time.
      size: [2] width and height.
      max_bounces: how many walls a client may meet. After that many walls its path goes straight to the true end. None
        takes as many as these velocities need, or 15 where they are traced; 15 are enough for
        ceil(|vx| / w) + ceil(|vy| / h) <= 15.

    Returns:
      times: [N, K] non-decreasing from 0 to 1, K = 2 max_bounces + 3, padded at the end by repeating the last time.
      points: [N, K, 2] places at these times, padded at the end by repeating the last place.

    Raises:
      UserError: where ``max_bounces`` is None, for untraced velocities that are not finite or need more than 1000
        bounces.

    >>> times, points = bounce(jnp.array([[1.0, 2.0]]), jnp.array([[12.0, 0.0]]), jnp.array([5.0, 5.0]))
    >>> [[round(float(x), 3) for x in row[0, :4]] for row in (times, points[..., 0])]
    [[0.0, 0.333, 0.75, 1.0], [1.0, 5.0, 0.0, 3.0]]
    """
    if max_bounces is None:
        is_traced = any(isinstance(x, jax.core.Tracer) for x in (velocity, size))
        max_bounces = MAX_BOUNCES if is_traced else _bounces_needed(velocity, size)
    position, velocity, size = (jnp.asarray(x, jnp.float32) for x in (position, velocity, size))
    num_clients = position.shape[0]
    clients = PlaneClient(
        id=jnp.arange(num_clients, dtype=jnp.int32),
        position=position,
        velocity=velocity,
        time_left=jnp.full(num_clients, jnp.inf),
        facing=jnp.ones_like(position),
        memory=None,
    )
    everyone = jnp.ones(num_clients, bool)
    never = lambda key, client: client  # noqa: E731  # the only leg never ends
    _, path = travel(jax.random.key(0), clients, never, everyone, size, 1.0, REFLECT, max_bounces + 1)
    return path.times, path.points


class RandomWalkNumbers(Numbers):
    """The numbers of the thesis's random walk."""

    speed_max: float = number(50.0, "largest speed drawn for the slow clients", at_least=0, unit="m/s")
    beta: float = number(1.75, "fast clients' speeds are beta to 2 beta times speed_max", at_least=0, source="thesis 4")
    up: float = number(0.25, "probability of moving up", at_least=0, at_most=1)
    down: float = number(0.25, "probability of moving down", at_least=0, at_most=1)
    left: float = number(0.25, "probability of moving left", at_least=0, at_most=1)
    right: float = number(0.25, "probability of moving right", at_least=0, at_most=1)

    def check(self, setting: Setting) -> None:
        """Check that the probabilities sum to one, and that no client can meet too many walls in a round.

        Raises:
          UserError: for another sum, or a speed that is too high.
        """
        directions = {name: getattr(self, name) for name in ("up", "down", "left", "right")}
        total = sum(directions.values())
        if abs(total - 1) > 1e-6:
            each = ", ".join(f"{name} {value:g}" for name, value in directions.items())
            raise UserError(f"motion.up, down, left and right sum to {total:g} ({each}); probabilities must sum to 1")
        fastest = max(self.speed_max, 2 * self.beta * self.speed_max if setting.num_mobile else 0.0)
        walls = math.ceil(fastest * setting.dt / min(setting.width, setting.height))
        if walls > MAX_BOUNCES:
            raise UserError(
                f"motion.speed_max is {self.speed_max:g}; the fastest client would meet {walls} walls a round, "
                f"and it must be at most {MAX_BOUNCES}"
            )


@MOBILITIES.register(
    "random_walk",
    RandomWalkNumbers,
    formula="place+ = place + speed e;  e: up, down, left or right, with the probabilities of these names\n"
    "speed ~ U(0, speed_max), of mobile clients ~ U(beta speed_max, 2 beta speed_max)",
    cite="thesis: 4",
)
def random_walk() -> Mobility:
    """Random walk in two speed groups: all clients move, and the mobile clients are the fast ones.

    A client keeps its speed, and draws a direction in each round. With equal probabilities and reflecting or wrapping
    walls the places stay uniform.
    """

    def start(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del plan
        numbers = world.numbers
        fast = numbers.beta * numbers.speed_max
        low = jnp.where(world.is_mobile[client.id], fast, 0.0)
        high = jnp.where(world.is_mobile[client.id], 2 * fast, numbers.speed_max)
        return client._replace(memory=between(key, low, high))

    def turn(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del plan
        numbers = world.numbers
        direction = jnp.array([[0.0, 1.0], [0.0, -1.0], [-1.0, 0.0], [1.0, 0.0]])
        heading = direction[sample_index(key, jnp.stack([numbers.up, numbers.down, numbers.left, numbers.right]))]
        return client._replace(velocity=client.memory * heading)

    walk = plane_mobility(turn, start, everyone=True, each_round=True, max_events=MAX_BOUNCES + 1)
    return walk._replace(relays=False)  # all clients move
