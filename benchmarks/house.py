"""Measure the house: how many modules, lines, rooms and arrows the code has, and draw them.

Command:   python -m benchmarks.house                  prints the figures of the package and of its rooms
           python -m benchmarks.house --picture=FILE   draws the rooms with their arrows as PNG, SVG or PDF
           python -m benchmarks.house --way            follows a small study from `run` to its first round; with
                                                       --picture=FILE it draws this way

A room is a folder of `mdfl_jax/`. An arrow is an import of one room by another, wherever the import stands: inside a
function or under TYPE_CHECKING too. `ORDER` says which room may import which. tests/test_house.py allows no arrow
upward, no circle of modules, and no loose module at the top. The core is every room but `contrib/`, the highest one, so
the core imports nothing of it.
"""

import argparse
import ast
import os
import re
import sys
import tempfile
import threading
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
CONTRIB = "contrib"  # the room of what the core can do without
ORDER = (
    *("core", "storage", "traces", "data", "exchange", "attacks", "models", "mobility", "tasks", "metrics", "networks"),
    *("algorithms", "engine", "config", "results", "report", "study", "cli", CONTRIB),
)
"""The rooms from the ground up. A room imports only rooms that stand before it."""
PARTS = ("core", CONTRIB)
COUNTED = ("benchmarks", "configs", "examples", "launch", "tests")  # folders beside the package whose lines are counted
HOUSE = ("config", "study", "engine", "storage", "results")  # the rooms around the rules that are simulated
CAPABILITIES = re.compile(
    "attack|batter|radio|outage|clock|collect(?!ive)|presence|newcomer|renew|roadside|epoch|poison|budget|honest",
    re.IGNORECASE,
)
Graph = Mapping[str, Sequence[str]]


def modules_of(package: Path = ROOT / "mdfl_jax") -> dict[str, Path]:
    """Return the modules of the package by their dotted name; files that `mdfl new` copies are none."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        if "templates" not in parts:
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(name: str, path: Path, known: Mapping[str, Path]) -> set[str]:
    """Return the modules of the package that a module imports, by their most precise names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in known}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found |= {full} if full in known else {node.module} & set(known)
    return {other for other in found if other != name and not name.startswith(f"{other}.")}


def graph_of(modules: Mapping[str, Path]) -> dict[str, list[str]]:
    """Return the imports of each module, also those of a package's `__init__.py`, which hands names on."""
    return {name: sorted(imports_of(name, path, modules)) for name, path in modules.items()}


def room_of(module: str) -> str:
    """Return the room of a module; "" for a module at the top of the package."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ORDER else ""


def upward(graph: Graph) -> list[str]:
    """Return the imports of a room that stands above, each as 'importer -> imported'."""
    level = {room: floor for floor, room in enumerate(ORDER)}
    return [
        f"{name} -> {other}"
        for name, others in graph.items()
        for other in others
        if room_of(name) and room_of(other) and level[room_of(other)] > level[room_of(name)]
    ]


def circles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that import each other in a circle (strongly connected components).

    A package whose `__init__.py` hands on names of its modules is no circle: only modules count.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    names = [name for name in graph if not any(other.startswith(f"{name}.") for other in graph)]
    place = {name: i for i, name in enumerate(names)}
    pairs = [(place[name], place[other]) for name in names for other in graph[name] if other in place]
    rows, columns = zip(*pairs, strict=True) if pairs else ((), ())
    _, labels = connected_components(
        csr_array(([1] * len(pairs), (rows, columns)), shape=(len(names), len(names))), connection="strong"
    )
    groups: dict[int, list[str]] = {}
    for name, label in zip(names, labels, strict=True):
        groups.setdefault(int(label), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def loose(modules: Mapping[str, Path]) -> list[str]:
    """Return the modules that lie at the top of the package beside `__init__.py`."""
    return [name for name, path in modules.items() if path.parent.name == "mdfl_jax" and path.name != "__init__.py"]


def private_of_core(modules: Mapping[str, Path]) -> list[str]:
    """Return the private names of the core that contrib imports or reads, each as 'importer: name'."""
    found = []
    for name, path in modules.items():
        if room_of(name) != CONTRIB:
            continue
        of_core = set()  # what the module knows of the core, by the names that it has here
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and room_of(node.module) not in ("", CONTRIB):
                of_core |= {alias.asname or alias.name for alias in node.names}
                found += [f"{name}: {alias.name}" for alias in node.names if is_private(alias.name)]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and is_private(node.attr):
                found += [f"{name}: {node.value.id}.{node.attr}"] * (node.value.id in of_core)
    return found


def is_private(name: str) -> bool:
    """Tell whether a name begins with one underscore, as in `_name`."""
    return name.startswith("_") and not name.startswith("__")


def arrows(graph: Graph) -> set[tuple[str, str]]:
    """Return the pairs (room, room that it imports)."""
    pairs = {(room_of(name), room_of(other)) for name, others in graph.items() for other in others}
    return {(a, b) for a, b in pairs if a and b and a != b}


def floors(pairs: set[tuple[str, str]]) -> dict[str, int]:
    """Return the floor of each room: one more than the highest floor of the rooms that it imports; 1 is the ground."""
    found: dict[str, int] = {}
    for room in ORDER:
        found[room] = 1 + max((found[below] for above, below in pairs if above == room and below in found), default=0)
    return found


def code_lines(path: Path) -> int:
    """Count the lines of code of a file, without docstrings, comments, blank lines and imports."""
    source = path.read_text()
    left_out = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt):
            continue
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            left_out |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    counted = set()
    nothing = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in nothing and token.type != tokenize.ENCODING:
                counted |= set(range(token.start[0], token.end[0] + 1))
    return len(counted - left_out)


def all_lines(paths: Iterator[Path] | Sequence[Path]) -> int:
    """Count the lines of files."""
    return sum(len(path.read_text().splitlines()) for path in paths)


def fields_of_nouns() -> dict[str, int]:
    """Return how many fields the central types have."""
    wanted = {"Links", "Network", "Algorithm", "Task", "RoundStats", "RoundContext", "Metric", "Experiment"}
    found = {}
    for path in (ROOT / "mdfl_jax" / name for name in ("core/types.py", "core/metric.py", "config/sections.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name in wanted:
                found[node.name] = sum(isinstance(part, ast.AnnAssign) for part in node.body)
    return found


def lines_naming_capabilities() -> list[str]:
    """Return the lines of the engine and the central types, without imports, that name what a wrapper does."""
    package = ROOT / "mdfl_jax"
    files = [package / name for name in ("core/types.py", "core/links.py", "exchange/gossip.py")]
    lines = [line for path in (*files, *sorted((package / "engine").rglob("*.py"))) for line in path.open()]
    return [line for line in lines if CAPABILITIES.search(line) and not line.startswith(("from ", "import "))]


def names_in_several_modules(modules: Mapping[str, Path]) -> list[str]:
    """Return the public names of functions, classes and constants that two or more modules define."""
    homes: dict[str, set[str]] = {}
    for module, path in modules.items():
        for node in ast.parse(path.read_text()).body:
            names = [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            for name in names:
                homes.setdefault(name, set()).add(module)
    return sorted(name for name, of in homes.items() if len(of) > 1 and not name.startswith("_"))


def words_of_docs() -> int:
    """Count the words of the pages in the repository, as `wc -w` does."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "benchmarks").glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sum(len(page.read_text().split()) for page in pages)


def describe() -> str:
    """Return the figures of the package and of each room as text."""
    modules = modules_of()
    graph = graph_of(modules)
    pairs = arrows(graph)
    floor = floors(pairs)
    parts = {part: {n: p for n, p in modules.items() if (room_of(n) == CONTRIB) == (part == CONTRIB)} for part in PARTS}
    lines = [
        *(
            f"{part}: modules {len(of)}, lines {all_lines(list(of.values())):,}, "
            f"lines of code {sum(map(code_lines, of.values())):,}"
            for part, of in parts.items()
        ),
        f"loose modules {len(loose(modules))}, circles {len(circles(graph))}, imports upward {len(upward(graph))}",
        f"rooms {len(ORDER)}, arrows between rooms {len(pairs)}, floors {max(floor.values())}",
        *(f"lines of {name}/ {all_lines(list((ROOT / name).rglob('*.py'))):,}" for name in COUNTED),
        f"words of docs {words_of_docs():,}",
        "fields: " + ", ".join(f"{noun} {count}" for noun, count in fields_of_nouns().items()),
        f"lines of the engine and the central types that name capabilities {len(lines_naming_capabilities())}",
        f"public names in several modules {len(names_in_several_modules(modules))}",
        "",
        f"{'room':<12}{'floor':>6}{'modules':>9}{'code':>8}  imports",
    ]
    for room in reversed(ORDER):
        own = [path for name, path in modules.items() if room_of(name) == room]
        below = " ".join(other for other in ORDER if (room, other) in pairs)
        lines.append(f"{room:<12}{floor[room]:>6}{len(own):>9}{sum(map(code_lines, own)):>8,}  {below}")
    lines += ["", f"{'of contrib':<18}{'modules':>9}{'code':>8}"]
    folders: dict[str, list[Path]] = {}
    for name, path in parts[CONTRIB].items():
        if folder := ".".join(name.split(".")[2:3]):
            folders.setdefault(folder, []).append(path)
    lines += [f"{folder:<18}{len(own):>9}{sum(map(code_lines, own)):>8,}" for folder, own in folders.items()]
    return "\n".join(lines)


def leading(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the arrows that do not follow from others: no way through a third room leads from one end to the other."""
    below = {room: {b for a, b in pairs if a == room} for room in ORDER}
    for room in ORDER:  # from the ground up, so that the sets of the rooms below are whole
        below[room] |= {far for near in below[room] for far in below[near]}
    return {(a, b) for a, b in pairs if not any(b in below[mid] for mid in below[a] - {b})}


def draw(target: Path) -> None:
    """Draw the rooms on their floors, each as wide as its code, with the arrows that do not follow from others."""
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyArrowPatch, Rectangle

    modules = modules_of()
    pairs = arrows(graph_of(modules))
    floor = floors(pairs)
    code = {r: sum(code_lines(p) for name, p in modules.items() if room_of(name) == r) for r in ORDER}
    figure = Figure(figsize=(9, 0.8 * max(floor.values()) + 0.6), layout="constrained")
    axes = figure.subplots()
    scale, gap, height = 1 / 700, 0.5, 0.5
    places: dict[str, tuple[float, float, float]] = {}
    for level in range(1, max(floor.values()) + 1):
        rooms = [room for room in ORDER if floor[room] == level]
        widths = [max(code[room] * scale, 1.3) for room in rooms]
        left = -(sum(widths) + gap * (len(rooms) - 1)) / 2
        for room, width in zip(rooms, widths, strict=True):
            places[room] = (left + width / 2, level, width)
            axes.add_patch(Rectangle((left, level - height / 2), width, height, fc="#e8eef7", ec="#33507a", zorder=3))
            axes.text(
                left + width / 2, level, f"{room}\n{code[room]:,}", ha="center", va="center", fontsize=7, zorder=4
            )
            left += width + gap
    for above, below in sorted(leading(pairs)):
        (x, y, _), (to_x, to_y, _) = places[above], places[below]
        axes.add_patch(
            FancyArrowPatch(
                (x, y - height / 2), (to_x, to_y + height / 2), arrowstyle="-|>", mutation_scale=7, lw=0.9, alpha=0.6,
                color="#33507a", connectionstyle="arc3,rad=0.06", zorder=1,
            )
        )  # fmt: skip
    axes.autoscale_view()
    axes.set_axis_off()
    axes.set_title("The rooms of mdfl_jax, with their lines of code. A room imports only rooms below it.", fontsize=9)
    figure.savefig(target, dpi=130)


def walk() -> list[str]:
    """Run a small study, and follow it from the call of `mdfl_jax.run` to its first round.

    Returns:
      The files of `HOUSE` whose functions are called on the way, in the order of the first call.
    """
    import mdfl_jax

    small = {"rounds": 4, "eval_every": 2, "seeds": 1, "model.name": "linear", "network.num_clients": 6}
    order: list[str] = []
    arrived = False
    package = str(ROOT / "mdfl_jax") + os.sep

    def follow(frame: FrameType, event: str, _: Any) -> None:
        nonlocal arrived
        file = frame.f_code.co_filename
        if arrived or event != "call" or not file.startswith(package) or frame.f_code.co_name.startswith("<"):
            return
        if file.startswith(tuple(package + room for room in HOUSE)):
            arrived = frame.f_code.co_name == "one_round"
            if file not in order:
                order.append(file)

    with tempfile.TemporaryDirectory() as folder:
        mdfl_jax.run(small, workdir=Path(folder) / "warm", progress=False)
        sys.setprofile(follow)
        threading.setprofile(follow)  # a program is compiled in a thread of its own
        try:
            mdfl_jax.run(small, workdir=Path(folder) / "study", progress=False)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return [os.path.relpath(file, ROOT) for file in order]


def draw_walk(files: Sequence[str], target: Path) -> None:
    """Draw the way of a run: its files in the order in which the run first enters them, a column for each room."""
    from matplotlib.figure import Figure

    rooms = list(dict.fromkeys(file.split("/")[1] for file in files))
    figure = Figure(figsize=(9, 0.22 * len(files) + 0.8), layout="constrained")
    axes = figure.subplots()
    columns = [rooms.index(file.split("/")[1]) for file in files]
    axes.plot(columns, range(len(files)), color="#33507a", lw=0.9, marker="o", markersize=4)
    for row, (column, file) in enumerate(zip(columns, files, strict=True)):
        name = file.split("/", 2)[2].removesuffix(".py")
        axes.annotate(name, (column, row), xytext=(7, 0), textcoords="offset points", va="center", fontsize=7,
                      bbox={"fc": "white", "ec": "none", "pad": 0.5})  # fmt: skip
    axes.set_xticks(range(len(rooms)), rooms)
    axes.xaxis.tick_top()
    axes.set_xlim(-0.3, len(rooms) - 0.2)
    axes.invert_yaxis()
    axes.set_yticks([])
    axes.set_title(
        "The way of a run from mdfl_jax.run to its first round: files in the order of the first call", fontsize=9
    )
    for side in ("left", "right", "bottom"):
        axes.spines[side].set_visible(False)
    figure.savefig(target, dpi=130)


def main() -> None:
    """Print the figures, or draw the rooms."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--picture", type=Path, help="draw the rooms into this file")
    flags.add_argument("--way", action="store_true", help="follow a small study to its first round")
    chosen = flags.parse_args()
    if chosen.way:
        files = walk()
        print("\n".join(files))
        print(f"{len(files)} files of {', '.join(HOUSE[:-1])} and {HOUSE[-1]}")
        if chosen.picture:
            draw_walk(files, chosen.picture)
    elif chosen.picture:
        draw(chosen.picture)
    else:
        print(describe())


if __name__ == "__main__":
    main()
