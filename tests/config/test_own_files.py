"""Files of the user: which files count as such, how they are imported, and how an error in one of them is told."""

import functools
import json
import os
import sys

import jax
import numpy as np
import pytest

from mdfl_jax.core import own_files
from mdfl_jax.core.errors import UserError


def test_the_package_python_and_installed_packages_are_not_the_users():
    for file in (own_files.__file__, json.__file__, np.__file__, jax.__file__, "<string>", "<frozen importlib>"):
        assert not own_files.is_own(file)
    assert own_files.is_own(__file__)


def raised(function):
    with pytest.raises(Exception) as caught:  # noqa: PT011  (any)
        function()
    return caught.value


def test_the_place_of_an_error_is_the_innermost_own_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("import json\n\ndef f():\n    return json.loads('x')\n")
    names = {}
    exec(compile((tmp_path / "mine.py").read_text(), str(tmp_path / "mine.py"), "exec"), names)
    assert own_files.place(raised(names["f"])) == "mine.py:4"
    monkeypatch.chdir("/")
    assert own_files.place(raised(names["f"])) == os.path.relpath(tmp_path / "mine.py") + ":4"


def test_the_place_is_found_in_the_cause_of_an_error():
    def wrapped():
        try:
            int("x")
        except ValueError as error:
            raise RuntimeError("wrapped") from error

    error = raised(wrapped)
    line = error.__cause__.__traceback__.tb_lineno
    assert own_files.place(error).endswith(f"test_own_files.py:{line}")
    assert own_files.place(None) == ""
    assert own_files.place(raised(lambda: own_files.import_file("absent.py")).with_traceback(None)) == ""


def test_an_error_of_a_user_is_told_in_one_line_and_others_stay(tmp_path):
    def fail(error):
        with own_files.errors_in_one_line():
            raise error

    told = raised(lambda: fail(KeyError("two\nlines")))
    assert isinstance(told, UserError)
    assert isinstance(told.__cause__, KeyError)
    assert "\n" not in str(told)
    own = UserError("seeds is 0")
    assert raised(lambda: fail(own)) is own

    def from_inside():
        with own_files.errors_in_one_line():
            json.loads("x")  # called from this file, which is the user's

    assert "test_own_files.py:" in str(raised(from_inside))


def test_a_file_is_imported_once_and_again_when_it_has_changed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "random.py"  # a name that Python has too
    path.write_text(f"open({str(tmp_path / 'log')!r}, 'a').write('1')\n")
    for given in ("random.py", str(path), "./random.py"):
        own_files.import_file(given)
    assert (tmp_path / "log").read_text() == "1"
    path.write_text(f"open({str(tmp_path / 'log')!r}, 'a').write('second')\n")
    own_files.import_file("random.py")
    assert (tmp_path / "log").read_text() == "1second"
    assert str(tmp_path) not in str(sys.modules["random"])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("import nosuchmodule", r"mine\.py:1: ModuleNotFoundError: No module named 'nosuchmodule'"),
        ("x = 1\ndef f(:\n", r"mine\.py:2: SyntaxError: invalid syntax"),
        ("\n\n1 / 0", r"mine\.py:3: ZeroDivisionError: division by zero"),
        ("from mdfl_jax.core.errors import UserError\nraise UserError('so')", r"mine\.py:2: so$"),
        (
            "from mdfl_jax.mobility import MOBILITIES\n\n@MOBILITIES.register('dcm')\ndef mine(): ...",
            r"mine\.py:3: mobility 'dcm' is there already, from ",
        ),
    ],
)
def test_a_file_that_raises_is_told_with_its_line(content, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(content)
    with pytest.raises(UserError, match=f"^{expected}"):
        own_files.import_file("mine.py")
    with pytest.raises(UserError, match=f"^{expected}"):  # it was not kept as imported
        own_files.import_file("mine.py")


def test_an_absent_file_is_told():
    with pytest.raises(UserError, match=r"^use is 'nope\.py': there is no such file$"):
        own_files.import_file("nope.py")


def test_the_place_of_a_function_is_that_of_the_users_code():
    here = own_files.located("text", raised)
    assert here.startswith(f"{os.path.relpath(__file__)}:")
    assert here.endswith(": text")
    assert own_files.located("text", functools.partial(functools.partial(raised), None)) == here
    assert {own_files.located("text", other) for other in (np.mean, 3, own_files.place)} == {"text"}
