"""Faults in what a kill, damage, a full disk, a closed stream, want of memory or a user's mistake meets."""

from tests.mutants.mutant import Mutant

ARRAYS, RECORDS, DISK = "storage/test_array_files.py", "results/test_records.py", "study/test_full_disk.py"
STORE, GROWING, WORKDIR = "study/test_store.py", "study/test_growing.py", "study/test_workdir.py"
RULES = "test_points_whose_rules_are_others_go_on_in_one_program"
STREAMS, SIGNALS = "cli/test_closed_streams.py", "study/test_signals.py"
NOHUP = f"{STREAMS}::test_a_closed_terminal_stops_a_study_with_its_state_saved_and_does_not_under_nohup"
MEMORY, BOUNDS, SWEEP = "study/test_out_of_memory.py", "cli/test_sweep_mistakes.py", "config/test_sweep.py"
WEIGHTS, TRACES = "contrib/pretrained/test_hostile_weights.py", "traces/test_bounds.py"
DIVERGING, IDENTITY = "study/test_diverging.py", "study/test_identity.py"
PLANNED = "study/test_memory.py"
DEVICES = "study/test_other_devices.py::test_a_study_that_goes_on_with_other_devices_counts_the_same"

MUTANTS = [
    # Flipped bytes, and files that are those of another run.
    Mutant("storage/array_files.py", "if checksum != checksum_of(found)", "if False", ARRAYS),
    Mutant("storage/array_files.py", "_checksum_of_text(text[begins:])", "text[14:46]", ARRAYS),
    Mutant("results/records.py", 'or header["run"] != self.name', "", RECORDS),
    Mutant("results/records.py", "if not fits or", "if", RECORDS),
    Mutant("results/records.py", ", parse_constant=_refuse", "", RECORDS),
    Mutant("storage/array_files.py", 'array.dtype.newbyteorder("=")', "array.dtype", ARRAYS),
    Mutant("study/states.py", 'if header["run"] != beginning.state:', "if False:", GROWING),
    # A kill between two writes, and what it leaves.
    Mutant("storage/disk.py", "part.replace(path)", "path.write_bytes(part.read_bytes())", f"{WORKDIR} {DISK}"),
    Mutant("study/workdir.py", 'if own and not own["ended"]:  # otherwise', "if own:  # otherwise", STORE),
    # Runs that go on.
    Mutant("study/states.py", "np.zeros(leaf.shape, leaf.dtype) if row is None else row", "row",
           f"{GROWING}::{RULES}"),
    Mutant("study/states.py", "found | added", "found", f"{GROWING}::{RULES}"),
    Mutant("study/states.py", "return _text(simulation, numbers[0]) == ", "return True or ", GROWING),
    # Whose folder it is.
    Mutant("study/workdir.py", "if other := sorted(", "if other := False and sorted(", WORKDIR),
    Mutant("study/identity.py", '"switches": switches()}', '"switches": 0}', IDENTITY),
    # A full disk.
    Mutant("storage/disk.py", "raise DiskError(_line(path, error, needs)) from error", "raise", DISK),
    Mutant("storage/disk.py", "part.unlink(missing_ok=True)", "pass", DISK),
    Mutant("storage/disk.py", "os.ftruncate(self._file, end - written)", "pass", DISK),
    # Nobody reads the output; signals.
    Mutant("cli/streams.py", "if error.errno not in (errno.EPIPE, errno.EIO, errno.EBADF)", "if False", STREAMS),
    Mutant("cli/streams.py", "(CLOSED if any(", "(0 if any(", STREAMS),
    Mutant("cli/streams.py", "os.open(os.devnull, os.O_RDWR)", "pass", STREAMS),
    Mutant("study/signals.py", " and signal.getsignal(hangup) is not signal.SIG_IGN", "", NOHUP),
    Mutant("study/signals.py", "signal.signal(hangup, signal.SIG_IGN)", "pass", SIGNALS),
    # Want of memory.
    Mutant("core/errors.py", '"RESOURCE_EXHAUSTED" in text or', "", MEMORY),
    Mutant("study/runner.py", "if error is self.error or (asked", "if (asked", MEMORY),
    Mutant("storage/disk.py", "bounds.append(int(file.read_text()))", "pass", MEMORY),
    # Data that the seeds draw; other devices; fields that change no number.
    Mutant("study/memory.py", "sum(leaf.nbytes for leaf in jax.tree.leaves(tree))",
           "jax.tree.leaves(tree)[0].nbytes", PLANNED),
    Mutant("engine/programs.py", "if k >= _AHEAD:", "if False:", DEVICES),
    Mutant("config/sections.py", '"headline of the report", in_runs=False', '"headline of the report"',
           IDENTITY),
    Mutant("study/identity.py", "and {self.here!r} {self.here_is}", "and another", IDENTITY),
    # Settings that nothing reads, and types that a round changes.
    Mutant("config/checks.py", "sorted(ignored.intersection(UNUSED))", "()", "config/test_own_files.py"),
    Mutant("core/message_bits.py", "sums(word).astype(jnp.uint32)", "sums(word)", "tasks/test_studies.py"),
    # Numbers and paths beyond all bounds, and whatever a file raises.
    Mutant("config/points.py", "if num_points > MOST_POINTS:", "if False:", SWEEP),
    Mutant("config/points.py", "experiment.seeds) > MOST_RUNS:", "experiment.seeds) < 0:", SWEEP),
    Mutant("core/errors.py", "if error.errno == errno.ENAMETOOLONG else", "if False else", BOUNDS),
    Mutant("cli/common.py", "word if len(word) <= LONGEST else", "word if True else", BOUNDS),
    Mutant("cli/common.py", "error = error.__context__", "error = None", BOUNDS),
    # Files of somebody else.
    Mutant("contrib/pretrained/pretrained.py", '"sparse" in last', '"sparse" == last', WEIGHTS),
    Mutant("contrib/pretrained/pretrained.py", '"/code/" in name or name.endswith("/constants.pkl")', "False", WEIGHTS),
    Mutant("storage/disk.py", "if needed != entry.file_size and", "if False and", WEIGHTS),
    Mutant("storage/disk.py", "if size > ANYWHERE and size > (there", "if False and size > (there", WEIGHTS),
    Mutant("contrib/describe/traces.py", "for text in doubts(trace, usual)", "for text in ()",
           TRACES),
    Mutant("traces/resampling.py", "if wanted > MAX_ROUNDS:", "if wanted < 0:", TRACES),
    Mutant("traces/reading.py", "if count > MOST_SAMPLES:", "if count < 0:", TRACES),
    # Runs that diverge.
    Mutant("core/stopping.py", "((norm > bound) | ~jnp.isfinite(norm))", "(norm > bound)", DIVERGING),
    Mutant("core/stopping.py", "jnp.where(jnp.isnan(norm), jnp.inf, norm)", "norm", DIVERGING),
    Mutant("core/stopping.py", "jnp.where(self.is_there, jnp.nan, value)", "value", DIVERGING),
    Mutant("engine/simulation.py", "jax.lax.cond(has_diverged,", "jax.lax.cond(has_diverged & False,", DIVERGING),
    Mutant("engine/simulation.py", "norm = jnp.maximum(norm, largest_norm(", "norm = jnp.minimum(norm, largest_norm(",
           DIVERGING),
    Mutant("results/summary.py", 'str(seed) not in lost["diverged"]', "True", DIVERGING),
]  # fmt: skip
