"""Random walk with bouncing in two speed groups, as in the thesis on mobility in decentralized learning.

In each round a client draws one of the directions up, down, left and right. It moves in this direction at its own
constant speed and bounces off the walls: a wall reverses the component of the velocity that points into it. The thesis
samples time, and reverses the velocity at the first instant whose place would be outside. Here the client turns at the
wall itself, which is the limit of fine sampling.
"""

import math

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import Numbers, Setting, number
from mdfl_jax.mobility.grid import sample_index
from mdfl_jax.mobility.plane import PlaneClient, PlaneWorld, between, plane_mobility
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility

MAX_BOUNCES = 15  # of a client in a round


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
