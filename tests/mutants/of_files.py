"""Faults in what a kill, damage, a full disk, a closed stream, want of memory or a user's mistake meets."""

from tests.mutants.mutant import Mutant

CHECKPOINT, TEXTS = "storage/test_checkpoint.py", "storage/test_texts.py"
ALONE, DISK = "study/test_alone.py", "study/test_full_disk.py"
STREAMS, SIGNALS = "cli/test_closed_streams.py", "study/test_signals.py"
MEMORY, BOUNDS = "study/test_out_of_memory.py", "cli/test_sweep_mistakes.py"
WEIGHTS, TRACES = "models/test_hostile_weights.py", "traces/test_bounds.py"
DIVERGING, IDENTITY = "study/test_diverging.py", "study/test_identity.py"
DRY_RUN = "configs/test_dry_run.py::test_a_dry_run_describes_the_study[pame-f8,scale=smoke]"
DEVICES = f"{CHECKPOINT}::test_a_study_goes_on_over_another_number_of_devices"

MUTANTS = [
    # Flipped bytes.
    Mutant("storage/checksums.py", "if checksum != checksum_of", "if False and checksum != checksum_of", CHECKPOINT),
    Mutant("storage/checksums.py", "only is None and {", "False and {", CHECKPOINT),
    Mutant("storage/checkpoint.py", "saved if digest == ", "saved if digest or digest == ", CHECKPOINT),
    Mutant("storage/checkpoint.py", "_sealed(after if first else before)", "_sealed(after)", CHECKPOINT),
    Mutant("storage/checkpoint.py", "valid = {*before.states, ", "valid = {", CHECKPOINT),
    Mutant("storage/checkpoint.py", "or name in self._damaged", "", CHECKPOINT),
    Mutant("storage/model_files.py", "if checksum != _", "if checksum is _",
           "storage/test_model_files.py"),
    Mutant("storage/checksums.py", "if name in known and", "if False and", TEXTS),
    Mutant("storage/checksums.py", "own := _of_manifest(manifest)) != own", "own := _of_manifest(manifest)) is None",
           TEXTS),
    # A kill between two writes, and what it leaves.
    Mutant("storage/disk.py", "part.replace(path)", "path.write_bytes(part.read_bytes())", f"{CHECKPOINT} {DISK}"),
    Mutant("study/run.py", "in LEFT if held.is_finished else ()", "in ()", TEXTS),
    Mutant("study/run.py", "not changed and in_order and not stopped", "not changed and in_order", TEXTS),
    # Two processes in one workdir.
    Mutant("study/alone.py", "raise self._refusal(os.read(file, 10_000)) from None", "return True", ALONE),
    Mutant("study/alone.py", "if now != seen:", "if False:", ALONE),
    Mutant("study/alone.py", "if found and found != watched:", "if False:", ALONE),
    Mutant("study/alone.py", "if self.token.encode() not in found:", "if False:", ALONE),
    # A full disk.
    Mutant("storage/disk.py", "raise DiskError(line) from error", "raise", DISK),
    Mutant("storage/disk.py", "if not told:", "if True:", f"{DISK}::test_a_run_that_waits_says_so_once_and_goes_on"),
    Mutant("storage/disk.py", "part.unlink(missing_ok=True)", "pass", DISK),
    Mutant("storage/disk.py", "self._file.truncate(self._size)", "pass", DISK),
    Mutant("study/runner.py", "self._save_finished()\n            raise\n", "pass\n            raise\n", DISK),
    # Nobody reads the output; signals.
    Mutant("cli/streams.py", "if error.errno not in (errno.EPIPE, errno.EIO, errno.EBADF)", "if False", STREAMS),
    Mutant("cli/streams.py", "(CLOSED if any(", "(0 if any(", STREAMS),
    Mutant("cli/streams.py", "os.open(os.devnull, os.O_RDWR)", "pass", STREAMS),
    Mutant("study/signals.py", " and signal.getsignal(hangup) is not signal.SIG_IGN", "", STREAMS),
    Mutant("study/signals.py", "signal.signal(hangup, signal.SIG_IGN)", "pass", SIGNALS),
    # Want of memory.
    Mutant("core/errors.py", '"RESOURCE_EXHAUSTED" in text or', "", MEMORY),
    Mutant("study/halving.py", " if not saved or group.runs_per_batch % part == 0", "", MEMORY),
    Mutant("study/halving.py", "{n: (states[old][0],", "{n: (0,",
           f"{MEMORY}::test_what_is_finished_or_under_way_stays"),
    Mutant("study/runner.py", "if error is self.error or (asked", "if (asked", MEMORY),
    Mutant("storage/limits.py", "bounds.append(int(file.read_text()))", "pass", MEMORY),
    # Data that the seeds draw; other devices; fields that change no number.
    Mutant("study/ahead/memory.py", "sum(leaf.nbytes for leaf in jax.tree.leaves(tree))",
           "jax.tree.leaves(tree)[0].nbytes", DRY_RUN),
    Mutant("engine/simulation.py", "x[own] if of_clients", "x[own] if False", DEVICES),
    Mutant("config/sections.py", '"headline of the report", in_runs=False', '"headline of the report"',
           IDENTITY),
    Mutant("study/identity.py", "and {self.here!r} {self.here_is}", "and another", IDENTITY),
    # Numbers and paths beyond all bounds, and whatever a file raises.
    Mutant("config/points.py", "if num_points > MOST_POINTS:", "if False:", BOUNDS),
    Mutant("config/points.py", "experiment.seeds) > MOST_RUNS:", "experiment.seeds) < 0:", BOUNDS),
    Mutant("core/errors.py", "if error.errno == errno.ENAMETOOLONG else", "if False else", BOUNDS),
    Mutant("cli/common.py", "word if len(word) <= LONGEST else", "word if True else", BOUNDS),
    Mutant("cli/common.py", "except (UserError, KeyboardInterrupt):", "except UserError:", BOUNDS),
    # Files of somebody else.
    Mutant("models/pretrained.py", '"sparse" in last', '"sparse" == last', WEIGHTS),
    Mutant("models/pretrained.py", '"/code/" in name or name.endswith("/constants.pkl")', "False", WEIGHTS),
    Mutant("storage/limits.py", "if needed != entry.file_size and", "if False and", WEIGHTS),
    Mutant("storage/limits.py", "if size > (there", "if size > 2**80 + (there", WEIGHTS),
    Mutant("traces/describe.py", "for text in _warnings(begin, end, between, len(trace.ids))", "for text in ()",
           TRACES),
    Mutant("traces/resampling.py", "if wanted > MAX_ROUNDS:", "if wanted < 0:", TRACES),
    Mutant("traces/reading.py", "if count > MOST_SAMPLES:", "if count < 0:", TRACES),
    # Runs that diverge.
    Mutant("core/diverging.py", "((norm > bound) | ~jnp.isfinite(norm))", "(norm > bound)", DIVERGING),
    Mutant("core/diverging.py", "jnp.where(jnp.isnan(norm), jnp.inf, norm)", "norm", DIVERGING),
    Mutant("core/diverging.py", "jnp.where(self.is_there, jnp.nan, value)", "value", DIVERGING),
    Mutant("engine/simulation.py", "jax.lax.cond(has_diverged,", "jax.lax.cond(has_diverged & False,", DIVERGING),
    Mutant("engine/simulation.py", "norm = jnp.maximum(norm, largest_norm(", "norm = jnp.minimum(norm, largest_norm(",
           DIVERGING),
    Mutant("results/summary.py", 'str(record.seed) not in lost["diverged"]', "True", DIVERGING),
]  # fmt: skip
