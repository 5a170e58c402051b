"""docs/security.md: what the package never does, and the tests that the page names."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path for folder in ("mdfl_jax", "launch") for path in (ROOT / folder).rglob("*.py"))
NETWORK = {"socket", "socketserver", "http", "asyncio", "ssl", "xmlrpc", "ftplib", "smtplib"}
NETWORK |= {"multiprocessing", "select"}
CODE = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "yaml", "code"}
CALLS = {"eval", "exec", "system", "popen", "compile_command"}


@functools.cache
def nodes():
    """The calls of each file, and the modules that it imports, anywhere in it."""
    found = []
    for path in FILES:
        calls, modules = [], set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                calls.append(node)
            elif isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        found.append((path, calls, modules))
    return found


def modules_that_import(names):
    return {
        path.relative_to(ROOT).as_posix()
        for path, _, modules in nodes()
        for module in modules
        if module.partition(".")[0] in names or module.startswith("jax.distributed")
    }


def test_nothing_listens():
    assert modules_that_import(NETWORK) == set()


def test_nothing_is_unpickled():
    assert modules_that_import(CODE) == set()
    loads = [
        (path.name, ast.unparse(node))
        for path, calls, _ in nodes()
        for node in calls
        if getattr(node.func, "attr", "") == "load"
        and ast.unparse(node.func) in ("np.load", "numpy.load", "torch.load")
    ]
    assert len(loads) > 3
    for name, call in loads:
        assert "allow_pickle=True" not in call, name
        assert "torch" not in call or "weights_only=True" in call, name


def test_no_text_is_run():
    for path, calls, _ in nodes():
        for node in calls:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            assert name not in CALLS, f"{path}:{node.lineno}"
            assert all(keyword.arg != "shell" for keyword in node.keywords), f"{path}:{node.lineno}"


@pytest.mark.parametrize("module", ["report", "results", "cli/report.py", "contrib/merge/merge.py"])
def test_what_reads_a_workdir_imports_no_files_that_it_names(module):
    """Those of a user are imported by three modules, and what reads workdirs does not call them."""
    path = ROOT / "mdfl_jax" / module
    for file in path.rglob("*.py") if path.is_dir() else [path]:
        assert not re.search(r"import_used|import_file|with_files|make_study", file.read_text()), file


def test_every_test_that_the_page_names_is_there():
    named = re.findall(r"`(tests/[\w/]+\.py)`", (ROOT / "docs" / "security.md").read_text())
    assert len(set(named)) > 8
    assert [name for name in named if not (ROOT / name).is_file()] == []
