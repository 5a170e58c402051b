"""Whatever else a study has: another client's model depends on no gradient that the account has not counted."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import TINY

from mdfl_jax.config import default_config
from mdfl_jax.study import make_study

N, ROUNDS, KEY = 5, 5, jax.random.key(3)
SMALL = TINY | {"rounds": 6, "eval_every": 1, "seeds": 1, "network.num_clients": N, "engine.client_devices": 1}
SMALL |= {"privacy.clip": 1.0, "privacy.noise": 0.01, "privacy.public": "moments", "privacy.pairs": True}
SMALL |= {"network.mobility": "random_movement", "network.num_mobile": 4, "network.radius": 1.0, "network.grid_size": 3}
AWAY = {"presence.name": "markov", "presence.leave": 0.2}
CLOCKS = {"clock.joins": "in_contact", "cost.seconds_per_sample": 0.02, "cost.speed_spread": 0.5}
PAME = {"algorithm.name": "pame", "algorithm.period_min": 1, "algorithm.period_max": 3, "algorithm.participation": 0.7}
CASES = {
    "steps": {"algorithm.local_steps": 2, "algorithm.participation": 0.5},
    "away": AWAY,
    "newcomers": AWAY | {"presence.leave": 0.3, "presence.newcomers": "neighbour", "privacy.pairs": False},
    "clocks": CLOCKS,
    "pame": PAME,
    "pame and clocks": PAME | CLOCKS,
    "attackers": {"attack.name": "sign_flip", "attack.number": 2},
    "all knowing": {"attack.name": "dissensus", "attack.number": 2, "privacy.pairs": False},
    "relays": {"network.relays": 1, "network.num_mobile": 3},
    "lists": {"engine.links": "lists"},
    "trackers": {"algorithm.name": "gradient_tracking"},
    "everybody": {"algorithm.name": "allreduce", "privacy.pairs": False},
}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_what_changes_others_has_been_counted(name):
    """A client's gradients of one round are changed, and the models of others compared after this and later rounds."""
    config = default_config()
    config.update_from_flattened_dict(SMALL | CASES[name])
    (group,) = make_study(config).groups
    simulation, hparams = group.simulation, group.hparams[0]

    def do_round(carry, shift):
        def gradient(data, clients, models, key, only=None):
            loss, found = simulation.task.gradient(data, clients, models, key, only=only)
            return loss, jax.tree.map(lambda x: x + shift.reshape(N, *[1] * (x.ndim - 1)), found)

        moved = dataclasses.replace(simulation, task=simulation.task._replace(gradient=gradient))
        return moved.round(simulation.data, hparams, KEY, carry)

    step, plain, seen = jax.jit(do_round), jnp.zeros(N), 0
    carries = [jax.jit(simulation.first)(simulation.data, hparams, KEY)]
    for _ in range(ROUNDS):
        carries.append(step(carries[-1], plain))
    models = lambda carry: jax.tree.leaves(simulation.algorithm.params(carry.algorithm))  # noqa: E731
    for client in (0, 3):
        for t in range(ROUNDS):
            carry, before = step(carries[t], plain.at[client].set(0.4)), carries[t].network.steps[client]
            for later in carries[t + 1 :]:
                differs = sum((x != y).reshape(N, -1).any(1) for x, y in zip(models(carry), models(later))) > 0
                others = np.flatnonzero(np.asarray(differs & (jnp.arange(N) != client)))
                network, seen = later.network, seen + len(others)
                assert not len(others) or network.released[client] > before
                if network.reached is not None:
                    assert (network.reached[others, client] > before).all()
                carry = step(carry, plain)
    assert seen > 5
