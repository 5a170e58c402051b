"""What is no regular file, or too large a one, is refused in one line and unread, whatever names it."""

import ast
import os
import re
import signal
import socket
from pathlib import Path

import pytest
from small import told
from tiny import tiny_config

import mdfl_jax
from mdfl_jax.cli.common import parse_flags
from mdfl_jax.config.resolve import all_fields, read_file
from mdfl_jax.study import make_study

FIELDS: dict[str, tuple[str, dict[str, object]]] = {
    "cost.speeds": ("", {}),
    "data.table": (".csv", {"data.partition": "table"}),
    "graph.file": (".npz", {"network.graph": "file"}),
    "model.pretrained": (".npz", {"model.name": "resnet18"}),
    "presence.file": ("", {"presence.name": "table"}),
    "server.file": ("", {"algorithm.name": "async_fl", "server.pattern": "table"}),
    "trace.file": (".csv", {"network.mobility": "trace"}),
    "use": (".py", {}),
}
"""Each field that names a file => the ending of its name, and what brings it into use."""
SYSTEM = {"a device": "/dev/zero", "a file of the system": "/proc/self/environ"}


@pytest.fixture
def odd(tmp_path):
    """A function that makes something that is no file under a name, by its kind; a test that waits for it ends."""

    def make(kind: str, ending: str) -> Path:
        path = tmp_path / f"{re.sub('[ ,]', '_', kind)}{ending}"
        if kind == "a pipe":
            os.mkfifo(path)
        elif kind == "a socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(path))
        elif kind == "a folder":
            path.mkdir()
        elif kind in SYSTEM:
            path.symlink_to(SYSTEM[kind])
        else:
            path.touch()
            os.truncate(path, 2**41)
        return path

    signal.alarm(60)
    yield make
    signal.alarm(0)


KINDS = ("a device", "a pipe", "a socket", "a folder", "a file of the system", "2,199,023,255,552 bytes")


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_names_no_regular_file(odd, field):
    ending, needs = FIELDS[field]
    assert field in all_fields()
    for kind in KINDS:
        if kind == "a folder" and field in ("trace.file", "model.pretrained"):  # which may be one
            continue
        path = odd(kind, ending)
        line = told(make_study, tiny_config(**needs | {field: str(path)}))
        for part in (field, str(path), kind, "; allowed: a regular file of at most "):
            assert part in line


def test_the_fields_here_are_all_that_name_a_file():
    declared = {path for path, field in all_fields().items() if field.metadata.get("file")}
    assert declared | {"data.table", "use"} == FIELDS.keys() | {"trace.streets"}  # of which a test below is


def test_the_standard_input_is_not_read(odd, tmp_path):
    """It is a pipe into which nobody writes: who reads it waits forever."""
    (reads, writes), before = os.pipe(), os.dup(0)
    os.dup2(reads, 0)
    try:
        for field, (ending, needs) in FIELDS.items():
            path = tmp_path / f"input{ending}"
            path.unlink(missing_ok=True)
            path.symlink_to("/dev/stdin")
            line = told(make_study, tiny_config(**needs | {field: str(path)}))
            assert f"{str(path)!r}: it is a pipe; allowed: a regular file of at most " in line.replace(" is '", " '")
    finally:
        os.dup2(before, 0)
        for number in (reads, writes, before):
            os.close(number)


def test_streets_configs_flags_and_data_that_are_no_regular_file(odd, tmp_path, capsys):
    (tmp_path / "trace.csv").write_text("time,id,x,y\n0,a,1,1\n9,a,2,2\n0,b,1,1\n9,b,2,2\n")
    traced = {"network.mobility": "trace", "network.num_clients": 2, "trace.file": str(tmp_path / "trace.csv")}
    for kind in KINDS:
        lines = [told(make_study, tiny_config(**traced | {"trace.streets": str(odd(kind, ".net.xml"))}))]
        lines += [told(read_file, odd(kind, ".py"))]
        for ending in (".csv", ".npz"):
            path = odd(kind, ending)
            lines += [told(make_study, tiny_config(**{"data.dir": str(tmp_path), "data.name": path.stem}))]
            path.rmdir() if path.is_dir() else path.unlink()
        with pytest.raises(SystemExit):
            parse_flags(["mdfl", f"--flagfile={odd(kind, '.flags')}"])
        lines += [capsys.readouterr().err]
        for line in lines:
            assert kind in line
            assert "; allowed: a regular file of at most " in line


READING = ("config", "contrib/formats", "data", "mobility", "networks", "traces")


def test_nothing_else_opens_files_of_the_user():
    """In the rooms that read what fields name, no file is opened for reading but by `mdfl_jax.storage.given`."""
    package = Path(mdfl_jax.__file__).parent
    found = []
    for path in (path for room in READING for path in sorted((package / room).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                writes = [of for of in node.args if isinstance(of, ast.Constant) and str(of.value).startswith("w")]
                opens = name in ("open", "gzip.open") or name.endswith((".read_text", ".read_bytes"))
                found += [f"{path.name}:{node.lineno}"] if opens and not writes else []
    assert found == []


def test_what_is_no_text_is_named(tmp_path):
    path = tmp_path / "speeds.txt"
    path.write_bytes(b"1 2 3 4 5 \1\xff")
    line = told(make_study, tiny_config(**{"cost.speeds": str(path), "cost.seconds_per_sample": 1.0}))
    assert line == f"cost.speeds {str(path)!r}: it is not text: byte 0xff is not UTF-8"
