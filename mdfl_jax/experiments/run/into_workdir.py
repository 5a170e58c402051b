"""Runs a study into its workdir (config.json, metrics.jsonl, history.npz, summary.json), and handles signals."""

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mdfl_jax.experiments.config.families import effective
from mdfl_jax.experiments.processes.hosts import Interrupted, Lead
from mdfl_jax.experiments.results import workdir as workdirs
from mdfl_jax.experiments.results.checkpoint import Checkpoints
from mdfl_jax.experiments.results.files import PointHistory, history_arrays, summarize, write_arrays, write_json
from mdfl_jax.experiments.results.provenance import devices, provenance
from mdfl_jax.experiments.run.batch import BatchResult
from mdfl_jax.experiments.run.callback import Callback, OnEvaluation
from mdfl_jax.experiments.run.events import Sink
from mdfl_jax.experiments.run.plan import accuracy_is
from mdfl_jax.experiments.run.runner import Runner
from mdfl_jax.experiments.run.sinks import MetricsFile, ModelFiles, Notes, ProgressBar
from mdfl_jax.experiments.run.study import Run, Study, set_precision
from mdfl_jax.metrics.declare import SCHEMA

__all__ = ["Interrupted", "run_study"]


def _collect(study: Study, batches: list[tuple[list[Run], BatchResult]]) -> list[PointHistory]:
    """Converts the results by batch to histories by point, with the seeds in order."""
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
    """Returns the machine and the devices of each process of a study."""
    own = {"machine": socket.gethostname(), "devices": devices()}
    return [own] + [{"machine": lead.names[k], "devices": lead.devices[k]} for k in sorted(lead.names)]


def _manifest(study: Study, lead: Lead) -> dict[str, Any]:
    """Returns the content of config.json for a running study."""
    return {
        "schema": SCHEMA,
        "name": study.experiment.name,
        "title": study.experiment.title,
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


@contextlib.contextmanager
def _signals(lead: Lead, log: Callable[[str], None]) -> Iterator[None]:
    """On the first SIGINT or SIGTERM, saves the state after the current evaluation. The second stops at once.

    Only the main thread of a process can handle signals. In another thread, signals are left as they are.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        log("stopping after this evaluation, and saving the state (once more: stop at once, without saving) ...")
        lead.stopping = True
        as_before()

    def as_before() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    handlers = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        as_before()


def run_study(
    study: Study,
    workdir: Path,
    resume: bool = False,
    log: Callable[[str], None] = print,
    lead: Lead | None = None,
    progress: bool = True,
    on_evaluation: OnEvaluation | None = None,
) -> dict[str, Any]:
    """Runs a study into a workdir: config.json, metrics.jsonl, history.npz, summary.json.

    Args:
      study: The study, from `make_study`.
      workdir: The directory for its files, checked by `workdir.check`.
      resume: Whether to continue the unfinished run that the workdir holds.
      log: A function that takes lines for the user.
      lead: This process, from `mdfl_jax.experiments.processes.join.join`, if other processes share the study.
      progress: Whether to show a progress bar in a terminal or in a notebook.
      on_evaluation: A function that is called with an `EvaluationInfo` at each evaluation, in process 0 only. If it
        returns True, the study is stopped.

    Returns:
      The content of summary.json.

    Raises:
      Interrupted: On SIGINT or SIGTERM, or if ``on_evaluation`` has returned True. The state is saved.
      Exception: Whatever ``on_evaluation`` raises, unchanged. The state is saved.
      HostLost: If another process is gone. The state is saved.
      UserError: If the workdir cannot be written.
    """
    lead = lead or Lead()
    workdirs.prepare(workdir, resume)
    set_precision(study.experiment)
    manifest = _manifest(study, lead)
    checkpoints = Checkpoints(workdir / "checkpoints")
    sinks: list[Sink] = [MetricsFile(study, workdir / "metrics.jsonl"), ModelFiles(study, workdir)]
    sinks += [ProgressBar(study, progress), Notes(study, log)]
    runner = Runner(study, checkpoints, lead, sinks)
    if on_evaluation:
        sinks.append(Callback(study, on_evaluation, runner.stop))
    finished = runner.read_back()
    write_json(workdir / "config.json", manifest)
    with _signals(lead, log), contextlib.ExitStack() as stack:
        for sink in sinks:
            stack.enter_context(sink)
        batches = runner.run(finished)
    lead.close()  # the other processes may end
    summary = _write_results(study, workdir, manifest, _collect(study, batches))
    checkpoints.remove()
    return summary


def _write_results(
    study: Study, workdir: Path, manifest: dict[str, Any], histories: list[PointHistory]
) -> dict[str, Any]:
    """Writes summary.json, history.npz and at last config.json of a finished study, and returns the summary."""
    experiment = study.experiment
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
    if meaning := accuracy_is(study):
        summary["accuracy_is"] = meaning
    write_json(workdir / "summary.json", summary)
    write_arrays(workdir / "history.npz", history_arrays(histories))
    manifest["compile_seconds"] = sum(h.compile_seconds for h in histories)
    manifest["run_seconds"] = sum(h.run_seconds for h in histories)
    write_json(workdir / "config.json", manifest | {"status": "finished"})
    return summary
