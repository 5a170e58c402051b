"""Manhattan movement: clients move along the streets of a square grid and may turn at the crossings."""

import math

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import Setting, number
from mdfl_jax.mobility.grid import sample_index
from mdfl_jax.mobility.plane import MAX_EVENTS, PlaneClient, PlaneWorld, SpeedNumbers, between, plane_mobility
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility


def num_blocks(world: PlaneWorld) -> jax.Array:
    """Count the whole blocks along the width and the height: [2]. Streets are at 0, block, ..., num_blocks * block."""
    return jnp.floor(world.size / world.numbers.block + 1e-4)


class ManhattanNumbers(SpeedNumbers):
    """The numbers of Manhattan movement."""

    block: float = number(100.0, "distance between two streets", above=0, unit="m")
    turn: float = number(0.5, "probability of turning left or right at a crossing", at_least=0, at_most=1)

    def check(self, setting: Setting) -> None:
        """Check that a block fits in the rectangle, and that no client can pass too many crossings in a round.

        Raises:
          UserError: for a block that is too large, or a speed that is too high.
        """
        super().check(setting)
        if self.block > min(setting.width, setting.height):
            raise UserError(
                f"motion.block is {self.block:g}; it must be at most motion.width and motion.height, "
                f"which are {setting.width:g} and {setting.height:g}"
            )
        crossings = math.ceil(self.speed_max * setting.dt / self.block)
        if crossings >= MAX_EVENTS:
            raise UserError(
                f"motion.speed_max is {self.speed_max:g}; the fastest client would pass {crossings} crossings a "
                f"round, and it must be at most {MAX_EVENTS - 1}"
            )


@MOBILITIES.register(
    "manhattan",
    ManhattanNumbers,
    formula="at a crossing: left with probability turn / 2, right with turn / 2, else straight on",
    cite="etsi1998: annex B; bai2003",
)
def manhattan() -> Mobility:
    """Manhattan movement: clients move along streets ``block`` metres apart and may turn at each crossing.

    Directions that leave the streets are excluded, and the other probabilities are scaled up in proportion. Where
    none is left, the client turns back. Each section between two crossings has a speed U(speed_min, speed_max). All
    clients start uniformly along the streets, also those that do not move.
    """

    def start(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del plan
        key_axis, key_street, key_along, key_way, key_speed = jax.random.split(key, 5)
        blocks, block = num_blocks(world), world.numbers.block
        # There are blocks[1] + 1 streets along x, each blocks[0] blocks long, and blocks[0] + 1 streets along y.
        length = blocks * (blocks[::-1] + 1)
        axis = sample_index(key_axis, length)
        street = jnp.floor(jax.random.uniform(key_street) * (blocks[1 - axis] + 1))
        along = jax.random.uniform(key_along) * blocks[axis]
        way = jnp.where(jax.random.bernoulli(key_way), 1.0, -1.0)
        is_along = jnp.arange(2) == axis
        heading = jnp.where(is_along, way, 0.0)
        rest = jnp.where(way > 0, jnp.floor(along) + 1 - along, along - jnp.floor(along))
        speed = between(key_speed, world.numbers.speed_min, world.numbers.speed_max)
        return client._replace(
            position=jnp.where(is_along, along, street) * block,
            velocity=speed * heading,
            time_left=rest * block / speed,
            memory=heading,
        )

    def turn(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del plan
        key_way, key_speed = jax.random.split(key)
        crossing, heading = jnp.round(client.position / world.numbers.block), client.memory
        left = jnp.array([-1.0, 1.0]) * heading[::-1]
        ways = jnp.stack([heading, left, -left, -heading])
        side = world.numbers.turn / 2
        inside = jnp.all((crossing + ways >= 0) & (crossing + ways <= num_blocks(world)), axis=1)
        weight = jnp.where(inside, jnp.stack([1 - side * 2, side, side, jnp.zeros(())]), 0.0)
        weight = jnp.where(jnp.sum(weight) > 0, weight, jnp.array([0.0, 0.0, 0.0, 1.0]))
        heading = ways[sample_index(key_way, weight)]
        speed = between(key_speed, world.numbers.speed_min, world.numbers.speed_max)
        return client._replace(
            position=crossing * world.numbers.block,  # corrects rounding: legs end at crossings
            velocity=speed * heading,
            time_left=world.numbers.block / speed,
            memory=heading,
        )

    return plane_mobility(turn, start)
