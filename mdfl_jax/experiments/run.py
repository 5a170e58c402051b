"""Runs a study: the host loop around the compiled programs, and everything impure (progress, files, signals)."""

import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from mdfl_jax.experiments import workdir as workdirs
from mdfl_jax.experiments.batch import Batch, BatchResult, Program, batches_of, from_arrays, steps, to_arrays, unreached
from mdfl_jax.experiments.channel import Arrays
from mdfl_jax.experiments.checkpoint import Checkpoints, number_of, state_name
from mdfl_jax.experiments.families import effective
from mdfl_jax.experiments.follow import shares
from mdfl_jax.experiments.hosts import Interrupted, Lead
from mdfl_jax.experiments.lines import OrderedLines
from mdfl_jax.experiments.provenance import devices, provenance
from mdfl_jax.experiments.results import (
    SCHEMA,
    PointHistory,
    dumps,
    history_arrays,
    metric_lines,
    summarize,
    write_json,
)
from mdfl_jax.experiments.study import Run, Study, set_precision
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.simulation import RunFacts


class _Runner:
    """One study under way, at the process that writes."""

    def __init__(self, study: Study, workdir: Path, log: Callable[[str], None], lead: Lead):
        self.study = study
        self.workdir = workdir
        self.log = log
        self.lead = lead
        self.batches = batches_of(study)
        self.checkpoints = Checkpoints(workdir / "checkpoints")
        self.results: dict[int, BatchResult] = {}
        self.unsaved: list[int] = []
        self.states: dict[int, tuple[int, Arrays | None]] = {}  # of batches under way elsewhere, or not taken up yet
        self.number = 0  # of the batch under way here
        self.rounds = 0  # of that batch, over its runs
        self.saved_at = time.monotonic()
        self.lines: OrderedLines
        self.bar: tqdm

    def run(self) -> list[tuple[list[Run], BatchResult]]:
        """All batches, those of an earlier run read back."""
        progress = self.checkpoints.progress()
        total = self.study.experiment.rounds * len(self.study.points) * len(self.study.seeds)
        with (
            (self.workdir / "metrics.jsonl").open("w") as file,
            tqdm(total=total, unit="round", disable=None, smoothing=0.05) as self.bar,
        ):
            self.lines = OrderedLines(file)
            for name in progress.finished:
                batch = self.batches[number_of(name)]
                result = from_arrays(self.checkpoints.load(name), batch.group.simulation.metrics)
                self._write_lines(batch, result.metrics, result.facts)
                self._finish(batch, result)
            self.states = {number_of(name): (done, None) for name, done in progress.states.items()}
            program: Program | None = None
            for batch in self._share_out():
                if program is None or program.group is not batch.group:
                    program = Program(self.study, batch.group)
                self._batch(program, batch)
                self._save_if_due()
            while len(self.results) < len(self.batches):
                self._take(wait=0.2)
                self._save_if_due()
        return [(batch.runs, self.results[batch.number]) for batch in self.batches]

    def _share_out(self) -> list[Batch]:
        """Gives every other process its batches; those of this one."""
        left = [batch.number for batch in self.batches if batch.number not in self.results]
        mine, *theirs = shares(left, list(self.states), self.lead.count)
        for index, numbers in enumerate(theirs, start=1):
            for number in (n for n in numbers if n in self.states):
                name, done = state_name(number, self.states[number][0]), self.states[number][0]
                state = self.checkpoints.load(name)
                self.lead.send(index, "state", {"number": number, "evaluations": done}, state)
            sizes = [group.runs_per_batch for group in self.study.groups]
            self.lead.send(index, "plan", {"sizes": sizes, "numbers": numbers})
        return [self.batches[number] for number in mine]

    def _batch(self, program: Program, batch: Batch) -> None:
        self.bar.set_postfix_str("compiling" if program.compile_seconds is None else "", refresh=True)
        self.number, self.rounds = batch.number, 0
        done = self.states.get(batch.number, (0, None))[0]
        saved = self.checkpoints.load(state_name(batch.number, done)) if batch.number in self.states else None
        begin = time.monotonic()
        for step in steps(program, batch.runs, saved, done):
            if step.rounds:
                self.lead.patience = max(self.lead.patience, 2 * (time.monotonic() - begin))
            begin = time.monotonic()
            if not step.rounds:
                for line in unreached(self.study, batch.runs, step.facts):
                    self.log(line)
                self.bar.unpause()
                self.bar.set_postfix_str("")
            self._write_lines(batch, step.metrics, step.facts)
            self.rounds += step.rounds * len(batch.runs)
            self._take()
            if step.rounds and not step.last and self._save_is_due():
                self._save(step.state(), step.evaluations)
        self.rounds = 0
        self.unsaved.append(batch.number)
        self._finish(batch, step.result())

    def _finish(self, batch: Batch, result: BatchResult) -> None:
        self.results[batch.number] = result
        self.states.pop(batch.number, None)
        self.lines.end(batch.number)
        self._show()

    def _take(self, wait: float = 0.0) -> None:
        """Takes in what other processes have sent."""
        for _, message in self.lead.messages(wait):
            if message.kind == "state":
                self.states[message.fields["number"]] = message.fields["evaluations"], message.arrays
            elif message.kind == "result":
                batch = self.batches[message.fields["number"]]
                result = from_arrays(message.arrays, batch.group.simulation.metrics)
                for line in unreached(self.study, batch.runs, result.facts):
                    self.log(line)
                self._write_lines(batch, result.metrics, result.facts)
                self.unsaved.append(batch.number)
                self._finish(batch, result)
        self._show()

    def _show(self) -> None:
        done = self.study.experiment.rounds * sum(len(self.batches[number].runs) for number in self.results)
        self.bar.n = done + self.rounds + sum(self.lead.rounds.values())
        self.bar.update(0)

    def _save_if_due(self) -> None:
        """Saves between batches."""
        if len(self.results) < len(self.batches) and (self.unsaved or self.lead.ending) and self._save_is_due():
            self._save()

    def _save_is_due(self) -> bool:
        minutes = (time.monotonic() - self.saved_at) / 60
        return self.lead.ending or minutes >= self.study.experiment.engine.checkpoint_minutes

    def _save(self, current: Arrays | None = None, evaluations: int = 0) -> None:
        if ending := self.lead.ending:
            until = time.monotonic() + self.lead.patience
            while not self.lead.resting() and time.monotonic() < until:
                self._take(wait=0.2)
            self._take()
        here = [] if current is None else [self.number]
        others = {number: state for number, state in self.states.items() if number not in here}
        finished = [to_arrays(self.results[number]) for number in self.unsaved]
        self.checkpoints.save(finished, current, evaluations, [*self.unsaved, *here], others)
        for number in here:
            self.states.pop(number, None)
        self.states = {number: (done, None) for number, (done, _) in self.states.items()}
        self.unsaved, self.saved_at = [], time.monotonic()
        if ending:
            raise self.lead.lost or Interrupted

    def _write_lines(self, batch: Batch, metrics: Metrics, facts: RunFacts) -> None:
        of_runs = [
            metric_lines(
                self.study.points[run.point].id,
                run.seed,
                jax.tree.map(lambda leaf, i=i: leaf[i], metrics),
                facts.is_mobile[i],
                batch.group.double_bits(run.point),
            )
            for i, run in enumerate(batch.runs)
        ]
        # In this order too where several evaluations are read back; in one piece, so that a kill leaves whole lines.
        text = "".join(dumps(line) + "\n" for of_evaluation in zip(*of_runs) for line in of_evaluation)
        self.lines.write(batch.number, text)


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


def _processes(lead: Lead) -> list[dict[str, Any]]:
    """The machines of a study and their devices, by process."""
    own = {"machine": socket.gethostname(), "devices": devices()}
    return [own] + [{"machine": lead.names[k], "devices": lead.devices[k]} for k in sorted(lead.names)]


def run_study(
    study: Study,
    workdir: Path,
    resume: bool = False,
    log: Callable[[str], None] = print,
    lead: Lead | None = None,
) -> dict[str, Any]:
    """Runs a study into a workdir: config.json, metrics.jsonl, history.npz, summary.json.

    Args:
      study: from `make_study`.
      workdir: checked by `workdir.check`.
      resume: go on with the unfinished run that the workdir holds.
      log: takes lines for the user.
      lead: of `mdfl_jax.experiments.meeting.meet`, where other processes share the study.

    Returns:
      The summary, as written.

    Raises:
      Interrupted: on SIGINT or SIGTERM, with the state saved.
      HostLost: where another process is gone, with the state saved.
      UserError: where the workdir cannot be written.
    """
    lead = lead or Lead()
    workdirs.prepare(workdir, resume)
    experiment = study.experiment
    set_precision(experiment)
    manifest = {
        "schema": SCHEMA,
        "name": experiment.name,
        "title": experiment.title,
        "status": "running",
        "config": study.config,
        "points": [
            {"id": point.id, "overrides": point.overrides, "numbers": effective(point.experiment)}
            for point in study.points
        ],
        "seeds": study.seeds,
        "pretrained": study.pretrained,
        "runs_per_batch": [group.runs_per_batch for group in study.groups],
        **provenance(),
        **({"processes": _processes(lead)} if lead.count > 1 else {}),
        "compile_seconds": None,
        "run_seconds": None,
    }
    write_json(workdir / "config.json", manifest)
    runner = _Runner(study, workdir, log, lead)

    def stop(*_: Any) -> None:
        log("stopping after this evaluation, and saving the state (once more: stop at once, without saving) ...")
        lead.stopping = True
        for number, handler in handlers.items():
            signal.signal(number, handler)

    handlers = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        batches = runner.run()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    lead.close()  # the others may go
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
