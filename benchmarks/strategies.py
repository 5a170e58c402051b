"""Time what mobility rules take of a round of the arena: python -m benchmarks.throughput --suite=strategies"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from benchmarks import measure
from configs import arena
from mdfl_jax.study import make_study

ROUNDS = 60


def strategies_suite() -> list[dict[str, Any]]:
    """Time rounds of the arena's digits under each rule, in one program, and under the same program with nobody moving.

    One run with five mobile clients, since a CPU maps runs one by one. The difference to standing clients is the rule's
    own part.
    """
    rules = ("dcm", "waypoint", *arena.STRATEGIES)
    config = arena.get_config("centre,rules=static+" + "+".join(rules))
    config.rounds = config.eval_every = ROUNDS
    config.network.num_mobile = max(arena.MOBILE)
    config.baseline = ""
    study = make_study(config)
    (group,) = study.groups
    simulation, key = group.simulation, jax.random.key(0)

    def rounds(hparams: Any, carry: Any) -> Any:
        return jax.lax.fori_loop(
            0, ROUNDS, lambda _, state: simulation.round(simulation.data, hparams, key, state), carry
        )

    begin = jax.jit(lambda hparams: simulation.init(simulation.data, hparams, key)[0])
    carries = [begin(hparams) for hparams in group.hparams]
    program, _ = measure.compiled(rounds, group.hparams[0], carries[0])
    runs = zip(("static", *rules), group.hparams, carries)
    calls: dict[str, Callable[[], Any]] = {name: partial(program, *run) for name, *run in runs}
    seconds = {name: np.array(of) / ROUNDS for name, of in measure.interleaved(calls, repeats=25).items()}
    return [
        {
            "variant": name,
            "seconds_per_round": measure.spread(of.tolist()),
            "share_of_round": float(np.median((of - seconds["static"]) / of)),
        }
        for name, of in seconds.items()
    ]
