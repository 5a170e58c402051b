"""Files of every format that are damaged or edited at random: each is read, or refused in one line; none takes long.

PyTorch's files are not among them: it is no dependency, and reads them itself.
"""

import gzip
import random
import re
import resource
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from mdfl_jax.contrib.describe.traces import describe_trace
from mdfl_jax.contrib.pretrained.pretrained import read_tensors
from mdfl_jax.core.errors import UserError
from mdfl_jax.data.sources import load as load_data
from mdfl_jax.networks.costs import read_speeds
from mdfl_jax.networks.fixed import read_matrices
from mdfl_jax.networks.meetings import read_meetings
from mdfl_jax.storage import array_files, model_files
from mdfl_jax.storage.study_files import read_lines
from mdfl_jax.traces import contact_table, load, resample
from mdfl_jax.traces.formats.sumo import streets_of_network
from mdfl_jax.traces.trace import Contacts
from tests.attack.harness import damages
from tests.shell import ROOT

GIB, SECONDS = 2, 20  # beyond what the process has, and of one file
TRACES = ROOT / "tests" / "data" / "traces"
NET = '<net>\n<edge id="a" from="1" to="2"><lane id="a_0" shape="0,0 10,0 10,5"/></edge>\n</net>\n'
CELLS = ["nan", "inf", "-inf", "1e308", "-1", "0", "9" * 19, "1e-320", "", "é", "x" * 5000, "\0", "1,2", '"']
GIVEN = {
    "edges.csv": "0,1\n1,2\n2,3\n3,0\n",
    "matrix.csv": "0,1,0,1\n1,0,1,0\n0,1,0,1\n1,0,1,0\n",
    "meetings.csv": "client,slot\n0,1\n1,4\n2,2\n3,3\n",
    "speeds.txt": "1.0, 2.0\n0.5 1\n",
    "net.xml": NET,
    "metrics.jsonl": '{"schema": 1, "point": "all", "seed": 0, "round": 0, "accuracy": 0.5, "loss": null}\n' * 2,
}


def _trace(path):
    loaded = load(path)
    describe_trace(loaded)
    if isinstance(loaded, Contacts):
        contact_table(loaded, 4, 10)
    else:
        resample(loaded, 1.0, 2, 1)


READERS = {
    **dict.fromkeys(sorted(path.name for path in TRACES.iterdir()), _trace),
    "edges.csv": lambda path: read_matrices(path, 4),
    "matrix.csv": lambda path: read_matrices(path, 4),
    "graph.npy": lambda path: read_matrices(path, 4),
    "graph.npz": lambda path: read_matrices(path, 4),
    "meetings.csv": lambda path: read_meetings.__wrapped__(str(path), 4),
    "speeds.txt": lambda path: read_speeds(str(path), 4),
    "net.xml": streets_of_network,
    "metrics.jsonl": read_lines,
    "weights.npz": read_tensors,
    "weights.safetensors": read_tensors,
    "kept.safetensors": model_files.read,
    "state.safetensors": lambda path: array_files.read(path, "state 2"),
    "table.csv": lambda path: load_data("table", str(path.parent)),
    "images.npz": lambda path: load_data("images", str(path.parent)),
    "train-images-idx3-ubyte": lambda path: load_data("mnist", str(path.parent)),
    "train-labels-idx1-ubyte.gz": lambda path: load_data("mnist", str(path.parent)),
}


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


@pytest.fixture
def folder(tmp_path):
    """A file of each format, whole."""
    draw = np.random.default_rng(0)
    images, labels = draw.integers(0, 256, (20, 5, 4), np.uint8), np.arange(20, dtype=np.uint8) % 2
    ring = np.roll(np.eye(4), 1, 0) + np.roll(np.eye(4), -1, 0)
    for path in TRACES.iterdir():
        shutil.copy(path, tmp_path)
    for name, text in GIVEN.items():
        (tmp_path / name).write_text(text)
    np.save(tmp_path / "graph.npy", ring)
    np.savez(tmp_path / "graph.npz", graph=ring)
    tensors = {"conv1.weight": draw.random((3, 2), np.float32), "fc.bias": np.zeros(2, np.float32)}
    np.savez(tmp_path / "weights.npz", **tensors)
    save_file(tensors, tmp_path / "weights.safetensors")
    array_files.write(tmp_path / "state.safetensors", "state 2", {"run": "x"}, tensors, compress=True)
    model_files.write(tmp_path / "kept.safetensors", model_files.Header("0", "a", "all", 0, 2, 0.5), tensors)
    rows = [f"{x[0]},{x[1]},{'red' if k % 3 else 'blue'},{k % 2}" for k, x in enumerate(images[:, 0].tolist())]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,colour,label", *rows]) + "\n")
    np.savez(tmp_path / "images.npz", x_train=images, y_train=labels, x_test=images[:4], y_test=labels[:4])
    for name, array in (("train-images-idx3", images), ("t10k-images-idx3", images[:4])):
        (tmp_path / f"{name}-ubyte").write_bytes(idx(array))
    for name, array in (("train-labels-idx1", labels), ("t10k-labels-idx1", labels[:4])):
        (tmp_path / f"{name}-ubyte.gz").write_bytes(gzip.compress(idx(array), mtime=0))
    return tmp_path


def edited(content, draw):
    """Another cell, a line less, twice or elsewhere, as a hand or a script may leave a text; says what was done."""
    lines = content.decode().splitlines(keepends=True)
    at = draw.randrange(len(lines))
    if (kind := draw.randrange(5)) < 2:
        lines[at : at + 1] = [] if kind == 0 else [lines[at], lines[at]]
        return f"line {at + 1} {'is there twice' if kind else 'is gone'}", "".join(lines).encode()
    cells = list(re.finditer(r"[\w.+-]+", lines[at])) or [re.search("", lines[at])]
    cell, put = draw.choice(cells), draw.choice(CELLS)
    lines[at] = lines[at][: cell.start()] + put + lines[at][cell.end() :]
    return f"line {at + 1}: {cell.group()!r} is {put[:20]!r}", "".join(lines).encode()


def judged(read, path):
    """What becomes of reading a file, within some time and memory."""

    def late(*_):
        raise TimeoutError(f"more than {SECONDS} s")

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + GIB * 2**30, before[1]))
    signal.alarm(SECONDS)
    try:
        read(path)
    except UserError as error:
        return "refused" if "\n" not in str(error) else f"several lines: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGALRM, handler)
    return "read"


@pytest.mark.parametrize("number", [5, pytest.param(400, marks=pytest.mark.faults)])
@pytest.mark.parametrize("name", READERS)
def test_files_that_are_damaged_or_edited(tally, folder, seed, name, number):
    path, draw = folder / name, random.Random(f"{seed}-{name}")
    whole = path.read_bytes()
    assert judged(READERS[name], path) == "read", judged(READERS[name], path)
    is_text = path.suffix not in (".npz", ".npy", ".safetensors", ".gz") and "ubyte" not in name
    changed = list(damages(whole, draw, number // 2 if is_text else number))
    changed += [edited(whole, draw) for _ in range(number if is_text else 0)]
    for what, content in changed:
        path.write_bytes(content)
        tally.add(f"a file that is read: {name}", judged(READERS[name], path), what)
    tally.check(number)
