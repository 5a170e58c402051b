"""Runs a study: the host loop around the compiled programs, and everything impure (progress, files, signals)."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import jax
import numpy as np
from tqdm import tqdm

from mdfl_jax.experiments import workdir as workdirs
from mdfl_jax.experiments.checkpoint import Arrays, Checkpoints
from mdfl_jax.experiments.provenance import provenance
from mdfl_jax.experiments.results import (
    SCHEMA,
    PointHistory,
    dumps,
    history_arrays,
    metric_lines,
    summarize,
    write_json,
)
from mdfl_jax.experiments.study import Group, Run, Study, set_precision
from mdfl_jax.metrics import Metrics, as_history
from mdfl_jax.montecarlo import MonteCarlo, monte_carlo, to_host
from mdfl_jax.simulation import RunFacts


class Interrupted(Exception):  # noqa: N818
    """The user stopped the study; its state is saved, and the same command goes on with it."""


class BatchResult(NamedTuple):
    """What a batch of runs did: NumPy leaves [runs, E, ...] and [runs, ...], and the seconds it took."""

    metrics: Metrics
    facts: RunFacts
    compile_seconds: float
    run_seconds: float


def _to_arrays(result: BatchResult) -> Arrays:
    seconds = np.array([result.compile_seconds, result.run_seconds])
    return {**result.metrics._asdict(), **result.facts._asdict(), "seconds": seconds}


def _from_arrays(arrays: Arrays) -> BatchResult:
    runs, _, num_clients = arrays["accuracy"].shape
    position = arrays.get("position", np.zeros((runs, 0, num_clients, 2), np.float32))
    metrics = Metrics(**{name: arrays[name] for name in Metrics._fields if name != "position"}, position=position)
    facts = RunFacts(**{name: arrays[name] for name in RunFacts._fields})
    return BatchResult(metrics, facts, *(float(s) for s in arrays["seconds"]))


def unreached(study: Study, runs: list[Run], facts: RunFacts) -> list[str]:
    """A line for each point of a batch with clients that never meet the server there is."""
    lines = []
    for point in dict.fromkeys(run.point for run in runs):
        of_point = np.array([run.point == point for run in runs])
        missing = np.sum(~np.asarray(facts.reached)[of_point], axis=1)
        if study.points[point].experiment.server.pattern and missing.any():
            few, many = missing.min(), missing.max()
            number = f"{few}" if few == many else f"{few} to {many}"
            lines.append(
                f"{study.points[point].id}: {number} of {facts.reached.shape[1]} clients never meet the server"
            )
    return lines


class _Runner:
    """One study under way."""

    def __init__(self, study: Study, workdir: Path, log: Callable[[str], None]):
        self.study = study
        self.workdir = workdir
        self.log = log
        self.checkpoints = Checkpoints(workdir / "checkpoints")
        self.unsaved: list[BatchResult] = []
        self.saved_at = time.monotonic()
        self.stop = False
        self.lines: TextIO

    def run(self, resume: bool) -> list[tuple[list[Run], BatchResult]]:
        """All batches, those of an earlier run read back."""
        progress = self.checkpoints.progress()
        done: list[tuple[list[Run], BatchResult]] = []
        rounds, seeds = self.study.experiment.rounds, self.study.seeds
        total = rounds * len(self.study.points) * len(seeds)
        batches = [(group, list(group.batches(seeds))) for group in self.study.groups]
        num_batches = sum(len(of_group) for _, of_group in batches)
        with (
            (self.workdir / "metrics.jsonl").open("w") as self.lines,
            tqdm(total=total, unit="round", disable=None, smoothing=0.05) as bar,
        ):
            for group, of_group in batches:
                program = _Program(self.study, group)
                for runs in of_group:
                    if len(done) < len(progress.finished):
                        result = _from_arrays(self.checkpoints.load(progress.finished[len(done)]))
                        self._write_lines(runs, group, result.metrics, result.facts)
                    else:
                        current = progress.current if len(done) == len(progress.finished) and resume else None
                        result = self._batch(program, runs, current, progress.evaluations, bar)
                        self.unsaved.append(result)
                    done.append((runs, result))
                    if self.unsaved and len(done) < num_batches and self._save_is_due():
                        self._save()
                    bar.n = rounds * sum(len(r) for r, _ in done)
                    bar.refresh()
        return done

    def _batch(
        self, program: "_Program", runs: list[Run], saved: str | None, evaluations: int, bar: tqdm
    ) -> BatchResult:
        bar.set_postfix_str("compiling" if program.compile_seconds is None else "", refresh=True)
        device_runs = program.monte_carlo.runs([program.hparams[run.point] for run in runs], [run.seed for run in runs])
        carry, metrics, facts, compile_seconds = program.start(device_runs, len(runs))
        for line in unreached(self.study, runs, facts):
            self.log(line)
        bar.unpause()
        bar.set_postfix_str("")
        result = BatchResult(as_history(metrics, 1), facts, compile_seconds, run_seconds=0.0)
        if saved:
            arrays = self.checkpoints.load(saved)
            result, carry = _from_arrays(arrays), program.restore(carry, arrays, len(runs))
        self._write_lines(runs, program.group, result.metrics, facts)
        begin, parts = time.perf_counter() - result.run_seconds, [result.metrics]
        for e in range(evaluations if saved else 0, program.monte_carlo.num_evaluations):
            if np.all(parts[-1].rounds_done[:, -1] < parts[-1].round[:, -1]):  # the stop rule has ended every run
                parts.append(held(parts[-1], self.study.experiment.eval_every))
            else:
                carry, metrics = program.advance(program.monte_carlo.data, *device_runs, carry)
                parts.append(as_history(to_host(metrics, len(runs)), 1))
            self._write_lines(runs, program.group, parts[-1], facts)
            bar.update(self.study.experiment.eval_every * len(runs))
            last, due = e + 1 == program.monte_carlo.num_evaluations, self._save_is_due()
            if last or due:
                history = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts)
                result = result._replace(metrics=history, run_seconds=time.perf_counter() - begin)
            if due and not last:
                leaves = jax.tree.leaves(program.kept(carry, len(runs)))
                carried = {f"carry/{i:04d}": leaf for i, leaf in enumerate(leaves)}
                self._save(_to_arrays(result) | carried, e + 1)
        return result

    def _save_is_due(self) -> bool:
        minutes = (time.monotonic() - self.saved_at) / 60
        return self.stop or minutes >= self.study.experiment.engine.checkpoint_minutes

    def _save(self, current: Arrays | None = None, evaluations: int = 0) -> None:
        self.checkpoints.save([_to_arrays(r) for r in self.unsaved], current, evaluations)
        self.unsaved, self.saved_at = [], time.monotonic()
        if self.stop:
            raise Interrupted

    def _write_lines(self, runs: list[Run], group: Group, metrics: Metrics, facts: RunFacts) -> None:
        of_runs = [
            metric_lines(
                self.study.points[run.point].id,
                run.seed,
                Metrics(*(leaf[i] for leaf in metrics)),
                facts.is_mobile[i],
                group.double_bits(run.point),
            )
            for i, run in enumerate(runs)
        ]
        for of_evaluation in zip(*of_runs):  # in this order too where several evaluations are read back
            self.lines.writelines(dumps(line) + "\n" for line in of_evaluation)
        self.lines.flush()


def held(metrics: Metrics, eval_every: int) -> Metrics:
    """The next evaluation of runs that hold still: that of one evaluation [runs, 1, ...], later in the study."""
    last = jax.tree.map(lambda leaf: leaf[:, -1:], metrics._replace(position=None))
    unknown = np.full_like(last.train_loss, np.nan)
    return last._replace(
        round=last.round + eval_every,
        train_loss=unknown,
        num_neighbours=unknown,
        lambda_2=np.full_like(last.lambda_2, np.nan),
        position=np.repeat(metrics.position[:, -1:], eval_every, axis=1),
    )


class _Program:
    """The compiled program of a group; compiled when its first batch starts, so that the time can be told apart."""

    def __init__(self, study: Study, group: Group):
        self.group = group
        self.hparams = dict(zip(group.points, group.hparams))
        engine = study.experiment.engine
        self.monte_carlo: MonteCarlo = monte_carlo(group.simulation, group.runs_per_batch, engine.runs_at_once)
        self.compile_seconds: float | None = None
        self.init: Any = None
        self.advance: Any = None

    def start(self, runs: Any, num_runs: int) -> tuple[Any, Metrics, RunFacts, float]:
        """The state and metrics before the first round, with the seconds spent on compiling for it."""
        mc, seconds = self.monte_carlo, 0.0
        if self.compile_seconds is None:
            begin = time.perf_counter()
            self.init = mc.init.lower(mc.data, *runs).compile()
        carry, metrics = self.init(mc.data, *runs)
        if self.compile_seconds is None:
            self.advance = mc.advance.lower(mc.data, *runs, carry).compile()
            seconds = self.compile_seconds = time.perf_counter() - begin
        facts = to_host(jax.vmap(jax.vmap(self.group.simulation.facts))(carry), num_runs)
        return carry, to_host(metrics, num_runs), facts, seconds

    def kept(self, carry: Any, num_runs: int) -> Any:
        """A state as it is saved, the same over any devices."""
        return self.group.simulation.kept(to_host(carry._replace(clients=None), num_runs), before=1)

    def restore(self, start: Any, arrays: Arrays, num_runs: int) -> Any:
        """The saved state, over the devices of this run; ``start`` is that of the same runs before the first round."""
        host = to_host(start._replace(clients=None), num_runs)
        template, tree = jax.tree.flatten(self.group.simulation.kept(host, before=1))
        saved = [arrays.get(f"carry/{i:04d}", leaf) for i, leaf in enumerate(template)]  # not saved: no elements
        state = self.group.simulation.restored(jax.tree.unflatten(tree, saved), host, before=1)
        return self.monte_carlo.place(state)._replace(clients=start.clients)


def _collect(study: Study, batches: list[tuple[list[Run], BatchResult]]) -> list[PointHistory]:
    """Results by point, seeds in order, from results by batch."""
    bits = {point: group.double_bits(point) for group in study.groups for point in group.points}
    histories = []
    for p in range(len(study.points)):
        parts = [
            (jax.tree.map(lambda leaf, i=i: leaf[i], (result.metrics, result.facts)), result.run_seconds / len(runs))
            for runs, result in batches
            for i, run in enumerate(runs)
            if run.point == p
        ]
        metrics, facts = jax.tree.map(lambda *leaves: np.stack(leaves), *[tree for tree, _ in parts])
        compiling = sum(result.compile_seconds for runs, result in batches if runs[0].point == p)
        histories.append(PointHistory(metrics, facts, bits[p], compiling, sum(s for _, s in parts)))
    return histories


def run_study(study: Study, workdir: Path, resume: bool = False, log: Callable[[str], None] = print) -> dict[str, Any]:
    """Runs a study into a workdir: config.json, metrics.jsonl, history.npz, summary.json.

    Args:
      study: from `make_study`.
      workdir: checked by `workdir.check`.
      resume: go on with the unfinished run that the workdir holds.
      log: takes lines for the user.

    Returns:
      The summary, as written.

    Raises:
      Interrupted: on SIGINT or SIGTERM, with the state saved.
      UserError: where the workdir cannot be written.
    """
    workdirs.prepare(workdir, resume)
    experiment = study.experiment
    set_precision(experiment)
    manifest = {
        "schema": SCHEMA,
        "name": experiment.name,
        "title": experiment.title,
        "status": "running",
        "config": study.config,
        "points": [{"id": point.id, "overrides": point.overrides} for point in study.points],
        "seeds": study.seeds,
        "pretrained": study.pretrained,
        "runs_per_batch": [group.runs_per_batch for group in study.groups],
        **provenance(),
        "compile_seconds": None,
        "run_seconds": None,
    }
    write_json(workdir / "config.json", manifest)
    runner = _Runner(study, workdir, log)

    def stop(*_: Any) -> None:
        log("stopping after this evaluation, and saving the state (once more: stop at once, without saving) ...")
        runner.stop = True
        for number, handler in handlers.items():
            signal.signal(number, handler)

    handlers = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        batches = runner.run(resume)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    histories = _collect(study, batches)
    summary = summarize(
        study.points,
        histories,
        study.baselines,
        study.seeds,
        experiment.target,
        study.baseline,
        experiment.select,
        experiment.judged,
    )
    write_json(workdir / "summary.json", summary)
    np.savez(workdir / "history.npz", **history_arrays(histories))  # type: ignore[arg-type]
    manifest["compile_seconds"] = sum(h.compile_seconds for h in histories)
    manifest["run_seconds"] = sum(h.run_seconds for h in histories)
    write_json(workdir / "config.json", manifest | {"status": "finished"})
    runner.checkpoints.remove()
    return summary
