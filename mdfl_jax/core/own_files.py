"""The user's own files: their import, their digests, and the line of such a file in which an error was raised.

A user's file is a file outside of this package, of Python and of the installed packages. This module imports no JAX.
"""

import ast
import contextlib
import copyreg
import dataclasses
import dis
import functools
import hashlib
import importlib.machinery
import importlib.util
import inspect
import os
import re
import sys
import sysconfig
import traceback
import types
import zlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.core.errors import UserError

MAIN = "__main__"  # the origin of what a notebook or the started script registers (`mdfl_jax.core.registry`)
_LONGEST = 400  # characters of another library's message that are shown
_TRACEBACK, _FRAME = "Traceback (most recent call last)", re.compile(r'File "([^"\n]+)", line (\d+)')
_NO_CODE = ("__doc__", "__firstlineno__", "__annotations__", "__dict__", "__weakref__", "_abc_impl")
"""Attributes of a class that are not its code. The docstring of a dataclass contains addresses."""
_PLAIN = (bool, int, float, complex, str, range, type(None), type(...), type(NotImplemented))  # with the value as text
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_imported: dict[str, tuple[int, int]] = {}  # absolute path -> time of change in ns, bytes
_PACKAGE, _LIBRARY = os.path.dirname(os.path.dirname(os.path.realpath(__file__))), sysconfig.get_path("stdlib")
_OTHERS = tuple(os.path.realpath(folder) + os.sep for folder in (_PACKAGE, _LIBRARY))


@functools.cache
def is_own(file: str) -> bool:
    """Tell whether a file of code is the user's own: not of this package, of Python or of an installed package.

    Args:
      file: the file name of a code object. Names such as "<string>" and the Cython sources of installed packages are
        not files of the user.

    >>> is_own("my_rule.py"), is_own("pandas/_libs/parsers.pyx")
    (True, False)
    """
    if file.startswith("<") or file.endswith(".pyx"):
        return False
    path = os.path.realpath(file)
    installed = any(part in ("site-packages", "dist-packages") for part in path.split(os.sep))
    return not installed and not path.startswith(_OTHERS)


def shown(file: str) -> str:
    """Return the name of a file for a message: relative to the current folder if it is below this folder."""
    relative = os.path.relpath(file)
    return file if relative.startswith(os.pardir) else relative


def digest_of(path: str | Path) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a file. An unchanged file is read once."""
    state = os.stat(path)
    return _digest(os.path.realpath(path), state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=4096)
def _digest(path: str, changed: int, size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def joined_digest(digests: Collection[str]) -> str:
    """Return one digest of several, in any order; a single one stays as it is."""
    few = sorted(digests)
    return few[0] if len(few) == 1 else hashlib.sha256(" ".join(few).encode()).hexdigest()[:16]


def digests(files: Iterable[str]) -> dict[str, str]:
    """Return the digest of each file that exists, by its name without folders.

    Without folders, a study can continue from another folder. Files with the same name have one joint digest.
    """
    by_name: dict[str, set[str]] = {}
    for file in files:
        if os.path.isfile(file):
            by_name.setdefault(os.path.basename(file), set()).add(digest_of(file))
    return {name: joined_digest(of_name) for name, of_name in by_name.items()}


def digest_of_code(members: Iterable[Any]) -> str:
    """Return a digest of the user's code and of the values that entries consist of.

    The digest covers everything that the entries reach: the user's functions and classes with the globals that they
    name, her modules with their imports, and the values of objects. An object of a library counts by its name. The
    digest does not depend on the process, or on the cell or line of the code. It changes with the version of Python.

    Raises:
      UserError: if the value of an object cannot be determined, as for a lock.
    """
    parts: list[str] = []
    seen: dict[int, tuple[int, Any]] = {}  # the objects are kept, so that no other object gets their id
    waiting = list(members)[::-1]
    while waiting:
        found = waiting.pop()
        if type(found) in _PLAIN:
            parts.append(repr(found))
        elif id(found) in seen:
            parts.append(f"object {seen[id(found)][0]}")
        else:
            seen[id(found)] = len(seen), found
            texts, inner = _told(found)
            parts += [f"{len(texts)} texts, {len(inner)} objects", *map(repr, texts)]
            waiting += inner
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _told(found: Any) -> tuple[list[str], list[Any]]:
    """Return the value of an object: texts, and the objects that it consists of."""
    module, name = getattr(found, "__module__", None), getattr(found, "__qualname__", getattr(found, "__name__", None))
    if isinstance(found, types.ModuleType):
        file = getattr(found, "__file__", None)
        return ([digest_of(path) for path in with_imports([file])] if file and is_own(file) else [found.__name__]), []
    if not _is_users(module) and _is_held(found, module, name):
        return [f"{module}.{name}"], []
    if isinstance(found, types.CodeType):
        arguments = found.co_varnames[: found.co_argcount + found.co_kwonlyargcount]
        texts = [found.co_code.hex(), f"{found.co_argcount} {found.co_flags}", *arguments, "names", *found.co_names]
        return texts, [of.argval for of in dis.get_instructions(found) if of.opcode in dis.hasconst]
    if isinstance(found, types.FunctionType):
        values = [cell.cell_contents for cell in found.__closure__ or () if cell != types.CellType()]
        values += [found.__defaults__, found.__kwdefaults__]
        values.append({name: value for name, value in vars(found).items() if not name.startswith("__")})
        code, known = found.__code__, found.__globals__
        if not _is_users(known.get("__name__")):
            return [str(known.get("__name__")), code.co_qualname], values
        return [], [*values, code, {name: known[name] for name in sorted(_globals_in(code)) if name in known}]
    if isinstance(found, type):
        own = {name: value for name, value in sorted(vars(found).items()) if name not in _NO_CODE}
        return [found.__qualname__], [*found.__bases__, own]
    if isinstance(found, set | frozenset):
        return [], [type(found), *sorted(found, key=lambda of: _ADDRESS.sub("", repr(of)))]
    if type(found) in (tuple, list):
        return [], [type(found), *found]
    if type(found) in (dict, types.MappingProxyType):
        return [], [dict, *found, *found.values()]
    if dataclasses.is_dataclass(found):  # the private attributes of a linen module are not its value
        attributes = {name for name in getattr(found, "__dict__", ()) if not name.startswith("_")}
        names = sorted({field.name for field in dataclasses.fields(found)} | attributes)
        return [], [type(found), {name: getattr(found, name, None) for name in names}]
    if isinstance(found, np.dtype):
        return [str(found)], []
    if isinstance(found, bytes | bytearray):
        return [hashlib.sha256(found).hexdigest()], [type(found)]
    if type(found) is np.ndarray and not found.dtype.hasobject:
        return [f"{found.dtype} {found.shape}"], [found.tobytes()]
    if isinstance(found, types.MethodType):
        return [], [found.__func__, found.__self__]
    if isinstance(found, property | functools.cached_property):
        return [], [type(found), *(getattr(found, name, None) for name in ("fget", "fset", "func"))]
    if hasattr(found, "__wrapped__"):  # as of jit: other attributes contain addresses and lines of files
        public = {name: value for name, value in sorted(vars(found).items()) if not name.startswith("_")}
        return [], [type(found), found.__wrapped__, public]
    return _as_pickled(found)


def _as_pickled(found: Any) -> tuple[list[str], list[Any]]:
    """Return the parts of an object that `pickle` would keep, in the form of `_told`."""
    kind = type(found)
    try:
        kept = copyreg.dispatch_table[kind](found) if kind in copyreg.dispatch_table else found.__reduce_ex__(4)
        if not isinstance(kept, str):
            maker, arguments, state, items, entries = (*kept, None, None, None)[:5]
            return [], [maker, arguments, state, list(items or ()), list(entries or ())]
        if _is_held(found, module := getattr(found, "__module__", None), kept):
            return [str(module), kept], []
    except Exception:  # objects of any library may raise any type
        pass
    raise UserError(
        f"it holds an object of {kind.__module__}.{kind.__qualname__}, of which no value can be told; allowed: "
        "functions, classes, numbers, texts, arrays, and objects that pickle can save"
    )


def _is_users(module: str | None) -> bool:
    """Tell whether a module is the user's own: the script or notebook, or one of her files."""
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    return module == MAIN or bool(file and is_own(file))


def _is_held(found: Any, module: str | None, name: str | None) -> bool:
    """Tell whether a module has an object under the object's name."""
    held: Any = sys.modules.get(module or "")
    for part in str(name).split("."):
        held = getattr(held, part, None)
    return held is found


def _globals_in(code: types.CodeType) -> set[str]:
    """Return the names of the globals that a code object, or an inner one, reads."""
    names = {of.argval for of in dis.get_instructions(code) if of.opname == "LOAD_NAME" or "GLOBAL" in of.opname}
    return names.union(*(_globals_in(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)))


def with_imports(files: Iterable[str]) -> list[str]:
    """Return files of the user with all of her modules that they import, directly or through other modules.

    A module counts if its name is in the text of a file: in an import, or as a string, as for
    `importlib.import_module`. Only modules that have been imported are known.

    Args:
      files: paths of files; "__main__" and missing files stay in the list.
    """
    waiting = list(files)
    if not waiting:
        return []
    loaded = {
        name: os.path.realpath(file)
        for name, module in list(sys.modules.items())
        if isinstance(file := getattr(module, "__file__", None), str) and file.endswith(".py") and is_own(file)
    }
    packages = {path: name for name, path in loaded.items()}
    found: dict[str, None] = {}
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found[file] = None
        if os.path.isfile(file):
            own = packages.get(os.path.realpath(file), "")
            waiting += [loaded[name] for name in _modules_named(file, own) if name in loaded]
    return sorted(found)


def _modules_named(file: str, own: str) -> set[str]:
    """Return the names of the modules that a file may import, with the packages that contain them.

    Args:
      file: the path of the file.
      own: the name of the file's own module, for relative imports.
    """
    with open(file, "rb") as content:
        tree = ast.parse(content.read(), file)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            is_package = os.path.basename(file) == "__init__.py"
            parents = own.split(".")[: len(own.split(".")) - node.level + is_package] if node.level else []
            module = ".".join([*parents, *([node.module] if node.module else [])])
            found |= {module, *(f"{module}.{alias.name}".lstrip(".") for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            found.add(node.value)
    return {".".join(name.split(".")[: k + 1]) for name in found for k in range(name.count(".") + 1)}


def place(error: BaseException | None) -> str:
    """Return the user's line in which an error was raised, as "my_rule.py:12"; "" if there is none.

    It is the innermost line of a user's file, in the first error of the chain that passed such a file. For a function
    that a compiled program calls (`jax.pure_callback`), the line is found in the text of the traceback.
    """
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    for link in reversed(chain):
        if isinstance(link, SyntaxError) and link.filename and is_own(link.filename):
            return f"{shown(link.filename)}:{link.lineno}"
        frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(link.__traceback__)]
        if own := [frame for frame in [*frames, *_FRAME.findall(str(link))] if is_own(frame[0])]:
            return f"{shown(own[-1][0])}:{own[-1][1]}"
    return ""


def located(text: str, function: Any) -> str:
    """Return a text after the line of the user's file that defines a function, as in "my_rule.py:12: text".

    If the function is not in a user's file, the text alone is returned.
    """
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    return f"{shown(code.co_filename)}:{code.co_firstlineno}: {text}" if code and is_own(code.co_filename) else text


def error_words(error: BaseException) -> str:
    """Return the type and the message of an error in one line."""
    if isinstance(error, UserError):
        return str(error)
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    if _TRACEBACK in message:  # from a function that a compiled program calls; the last line is the error
        return [line for line in message.splitlines() if line.strip() and not line[0].isspace()][-1][:_LONGEST]
    first = message.strip().split("\n")[0]
    line = f"{type(error).__name__}: {' '.join((message if first.endswith(':') else first).split())}"
    line = line if message.strip() else type(error).__name__
    return line if len(line) <= _LONGEST else line[: _LONGEST - 4] + " ..."


@contextlib.contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Turn an error that was raised in a user's file into a `UserError` of one line, with the file and line.

    Other errors pass unchanged, and so does a `UserError` unless its cause is another error in a user's file. The new
    error keeps the old one as its cause, so that a Python caller sees the whole traceback.

    Raises:
      UserError: as described.
    """
    try:
        yield
    except UserError as error:
        where = place(error.__cause__)
        if where and not str(error).startswith(where):  # `import_file` has already named the line
            raise UserError(f"{where}: {error}") from error.__cause__
        raise
    except Exception as error:  # a user's file may raise anything
        if where := place(error):
            raise UserError(f"{where}: {error_words(error)}") from error
        raise


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a file without bytecode: it writes none, and it reads none, whose check is only the second and the size."""

    def path_stats(self, path: str) -> Any:
        raise OSError(f"{path} has no bytecode")


def import_file(path: str) -> None:
    """Import a Python file by its path, so that the entries in it are registered.

    A file that was imported before is imported again only if it has changed since.

    Args:
      path: the file, relative to the current folder or absolute.

    Raises:
      UserError: if the file raises an error; the message names the line.
    """
    whole = os.path.abspath(path)
    state = os.stat(whole)
    version = state.st_mtime_ns, state.st_size
    if _imported.get(whole) == version:
        return
    # The module's name must not hide another module: a user's random.py must not replace Python's.
    name = f"used_{zlib.crc32(whole.encode()):08x}_{Path(path).stem}"
    loader = _Loader(name, whole)
    spec = importlib.util.spec_from_file_location(name, whole, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a user's file may raise anything, and may call sys.exit
        del sys.modules[name]
        raise UserError(f"{place(error) or shown(whole)}: {error_words(error)}") from error
    _imported[whole] = version
