"""Runs the part of a study that belongs to a process other than 0: the batches that process 0 gives it.

Such a process writes no file.
"""

import signal
import time
from typing import Any

from mdfl_jax.experiments.processes.channel import Arrays
from mdfl_jax.experiments.processes.hosts import Follower
from mdfl_jax.experiments.run.batch import Program, batches_of, steps, to_arrays
from mdfl_jax.experiments.run.study import Study, set_precision


def shares(left: list[int], first: list[int], count: int) -> list[list[int]]:
    """Deals batches to the processes in turn, those under way first. Each share is in the order of the study.

    Args:
      left: The numbers of the batches that are not finished.
      first: The numbers of the batches under way.
      count: The number of processes.

    Returns:
      For each process the numbers of its batches.

    >>> shares([1, 2, 3, 4, 5], [4], 2)
    [[2, 4, 5], [1, 3]]
    """
    dealt = [number for number in left if number in first] + [number for number in left if number not in first]
    return [sorted(dealt[k::count]) for k in range(count)]


def follow_study(study: Study, process: Follower) -> None:
    """Runs this process's share of a study, and then waits until process 0 has ended the study.

    Args:
      study: The study, from `make_study`.
      process: This process, from `mdfl_jax.experiments.processes.join.join`.
    """
    states: dict[int, tuple[Arrays | None, int]] = {}
    while (message := process.receive()) and message.kind == "state":
        states[message.fields["number"]] = message.arrays, message.fields["evaluations"]
    if not message:  # the study had already finished
        return
    plan = message.fields
    study = study._replace(groups=[g._replace(runs_per_batch=n) for g, n in zip(study.groups, plan["sizes"])])
    set_precision(study.experiment)

    def stop(*_: Any) -> None:
        process.stopping = True  # the next sign of life tells process 0, which makes all processes save and end
        for number, handler in handlers.items():
            signal.signal(number, handler)

    handlers = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        _work(study, process, plan["numbers"], states)
        process.rest()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _work(study: Study, process: Follower, numbers: list[int], states: dict[int, tuple[Arrays | None, int]]) -> None:
    """Runs batches until the last one, or until all processes must save and end."""
    batches, program, sent_at = batches_of(study), None, time.monotonic()
    for number in numbers:
        group, runs = batches[number].group, batches[number].runs
        if program is None or program.group is not group:
            program = Program(study, group)
        for step in steps(program, runs, *states.pop(number, (None, 0))):
            process.rounds += step.rounds * len(runs)
            for kept in step.kept:
                fields = {"number": number, "run": kept.run, "round": kept.round, "accuracy": kept.accuracy}
                process.send("models", fields, kept.tensors)
            minutes = (time.monotonic() - sent_at) / 60
            due = process.ending or minutes >= study.experiment.engine.checkpoint_minutes
            if step.rounds and due and not step.last:
                process.send("state", {"number": number, "evaluations": step.evaluations}, step.state())
                sent_at = time.monotonic()
                if process.ending:
                    return
        process.send("result", {"number": number}, to_arrays(step.result()))
        process.rounds = 0
        if process.ending:
            return
