"""Files that somebody made to fill the memory, to hang, to read other files, or to run code: one line each, at once."""

import gzip
import io
import json
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mdfl_jax.config.resolve import resolve
from mdfl_jax.contrib.partitions.table import read_table
from mdfl_jax.contrib.pretrained.pretrained import read_tensors
from mdfl_jax.data.sources import load as load_data
from mdfl_jax.networks.costs import read_speeds
from mdfl_jax.networks.fixed import read_matrices
from mdfl_jax.networks.meetings import read_meetings
from mdfl_jax.results.results import Results
from mdfl_jax.storage import array_files, model_files
from mdfl_jax.traces import load
from mdfl_jax.traces.formats.sumo import streets_of_network
from tests.attack.test_formats import judged

SECRET = "the content of another file"
ENTITIES = "".join(f'<!ENTITY a{k + 1} "{f"&a{k};" * 10}">' for k in range(9))
BOMB = f'<!DOCTYPE x [<!ENTITY a0 "lol">{ENTITIES}]>'
FOREIGN = '<!DOCTYPE x [<!ENTITY a9 SYSTEM "file://{path}">]>'
STEP = '<fcd-export><timestep time="0"><vehicle id="&a9;" x="1" y="2"/></timestep></fcd-export>'
XML = {
    "fcd.xml": STEP,
    "walk.gpx": '<gpx><trk><name>&a9;</name><trkseg><trkpt lat="1" lon="2"><time>2024-01-01T00:00:00Z</time></trkpt>'
    "</trkseg></trk></gpx>",
    "graph.graphml": '<graphml><graph edgedefault="undirected"><node id="&a9;"/><edge source="&a9;" target="b"/>'
    "</graph></graphml>",
    "net.xml": '<net><edge id="&a9;" from="1" to="2"><lane id="a_0" shape="0,0 10,0"/></edge></net>',
}
READERS = {
    "trace": load,
    "graph": lambda path: read_matrices(path, 0),
    "streets": streets_of_network,
    "weights": read_tensors,
    "model": model_files.read,
    "state": lambda path: array_files.read(path, "state 2"),
    "data": lambda path: load_data(path.stem, str(path.parent)),
    "owners": lambda path: read_table(str(path)),
    "speeds": lambda path: read_speeds(str(path), 4),
    "meetings": lambda path: read_meetings.__wrapped__(str(path), 4),
    "study": lambda path: Results.open(path.parent),
    "config": lambda path: resolve(json.loads(path.read_text())),
}
OF_XML = {"fcd.xml": "trace", "walk.gpx": "trace", "graph.graphml": "graph", "net.xml": "streets"}

NEVER = ("bomb", "foreign", "objects", "code", "large", "negative", "absurd", "deep")  # the files that nobody may read


class Code:
    """Pickled, it makes a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def safetensors(header, content=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content


def zipped(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def header(shape, kind="<f4"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
    return file.getvalue()


def files(folder, ran):
    """Yield the readers that get a hostile file, and the file."""

    def of(name, content):
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    (folder / "secret").write_text(SECRET)
    for name, text in XML.items():
        for kind, head in (("bomb", BOMB), ("foreign", FOREIGN.format(path=folder / "secret"))):
            yield (OF_XML[name],), of(f"{kind}-{name}", head + text)
    for name in ("fcd.xml", "net.xml"):
        yield (OF_XML[name],), of(f"deep-{name}", "<a>" * 10**6)
    code = pickle.dumps(Code(ran))
    keys = ("x_train", "y_train", "x_test", "y_test")
    arrays = ("weights", "graph", "data", "owners")
    yield arrays, of("objects.npz", zipped(**{key: header((1,), "|O") + code for key in keys}))
    yield ("graph", "data"), of("objects.npy", header((1,), "|O") + code)
    yield arrays, of("code.npz", code)
    yield arrays, of("bomb.npz", zipped(**{key: header((2**28,)) + bytes(2**27) for key in keys[:1]}))
    yield arrays, of("large.npz", zipped(**{key: header((2**60, 2**60)) for key in keys}))
    yield arrays, of("negative.npz", zipped(**{key: header((-5,)) for key in keys}))
    yield arrays, of("away.npz", zipped(**{"../../../away": header((1,)) + bytes(4)}))
    tensors, own = ("weights", "model", "state"), "F32"
    for number, absurd in enumerate((
        struct.pack("<Q", 2**63) + b"{}",
        safetensors(b"[" * 10**6),
        safetensors(b'{"a":' * 10**5),
        safetensors({"a": {"dtype": own, "shape": [2**40], "data_offsets": [0, 2**42]}}),
        safetensors({"a": {"dtype": own, "shape": [2], "data_offsets": [8, 0]}}, bytes(8)),
        safetensors({"a": {"dtype": own, "shape": [-2], "data_offsets": [0, 8]}}, bytes(8)),
        safetensors({"a": {"dtype": own, "shape": [2**32, 2**32, 0], "data_offsets": [0, 0]}}),
        safetensors({k: {"dtype": own, "shape": [2], "data_offsets": [0, 8]} for k in ("a", "b")}, bytes(8)),
    )):  # fmt: skip
        yield tensors, of(f"absurd{number}.safetensors", absurd)
    rows = pa.table({"x": pa.array(np.zeros(3 * 10**7, np.int8)), "label": pa.array(np.zeros(3 * 10**7, np.int8))})
    pq.write_table(rows, folder / "rows.parquet", compression="zstd")
    yield ("data", "trace"), folder / "rows.parquet"
    pd.DataFrame({"x": [1.0], "label": [b"\x80\x04" * 100]}).to_parquet(folder / "bytes.parquet")
    yield ("data", "trace"), folder / "bytes.parquet"
    deep = "[" * 10**5 + "]" * 10**5
    yield ("graph", "owners", "data"), of("deep.json", deep)
    yield ("study",), of("config.json", deep)
    yield ("study",), of("config.json", '{"schema": 1e999, "points": ' + "9" * 5000 + "}")
    tables = ("trace", "graph", "data", "owners", "speeds", "meetings")
    yield tables, of("line.csv", "1," * 10**6)
    yield tables, of("quote.csv", 'a,b\n"' + "x\n" * 10**6)
    yield tables, of("digits.csv", "a,label\n" + "9" * 10**6 + ",1\n")
    yield tables, of("nul.csv", b"a,label\n\0\0\0,\0\n" * 1000)
    yield tables, of("bidi.csv", "a\u202e,label\u2066\n1,\u202e2\n" * 100)
    yield ("trace",), of("bomb.csv.gz", gzip.compress(b"time,id,x,y\n" + b"0" * 2**28))
    yield ("data",), of("train-images-idx3-ubyte", bytes([0, 0, 8, 255]) + b"\xff" * 1020)


@pytest.mark.parametrize(
    "by", [pytest.param("CI", marks=pytest.mark.long), pytest.param("us", marks=pytest.mark.faults)]
)
def test_hostile_files_are_refused_in_one_line_and_nothing_of_them_is_run_or_told(tally, tmp_path, by):
    """Some are harmless as other files, such as a table of one long line: then they may be read."""
    ran = tmp_path / "ran"
    folder = tmp_path / "files"
    folder.mkdir()
    count = 0
    for kinds, path in files(folder, ran):
        for kind in kinds:
            said = []

            def read(path, kind=kind, said=said):
                said.append(READERS[kind](path))

            verdict = judged(read, path)
            if verdict == "read" and (path.name.startswith(NEVER) or SECRET in repr(said)):
                verdict = "it was read"
            tally.add(f"a hostile file: {path.name.split('.')[-1]}", verdict, f"{path.name} as {kind}")
            count += 1
    assert not ran.exists()
    assert not list(tmp_path.rglob("away.npy"))
    tally.check(count)
    assert count > 60
