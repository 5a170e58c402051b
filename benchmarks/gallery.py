"""Make the gallery: a picture and a command for each kind of study, in docs/gallery.md and docs/figures/gallery/.

Command:   python -m benchmarks.gallery [--only=NAME] [--workdir=DIR] [--pages]

Each study is run as its command is printed, and its picture is a figure of its report. --workdir keeps the studies, so
that the same command goes on; --only makes one picture; --pages writes docs/gallery.md alone.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image

ROOT = Path(__file__).parents[1]
PAGE, PICTURES = ROOT / "docs" / "gallery.md", ROOT / "docs" / "figures" / "gallery"
WIDTH, COLOURS = 900, 128  # of a picture: some 30 KB


class Entry(NamedTuple):
    """A study of the gallery.

    Attributes:
      name: the name of its picture.
      title: what it is, in a few words.
      text: what the picture shows, in a sentence.
      study: the arguments of `mdfl sweep`.
      figure: the figure of its report that is shown; "theory": the study is not run, and theory draws its networks.
      page: the page that says more.
    """

    name: str
    title: str
    text: str
    study: Sequence[str]
    figure: str
    page: str

    @property
    def folder(self) -> str:
        """Return the workdir of the study."""
        return f"runs/gallery/{self.name}"

    @property
    def commands(self) -> list[list[str]]:
        """Return the commands that make the picture, as words."""
        file = f"{self.folder}.png"
        if self.figure == "theory":
            return [["mdfl", "theory", *self.study, "--seeds=20", f"--figures={self.folder}"]]
        return [
            ["mdfl", "sweep", *self.study, f"--workdir={self.folder}", "--noreport"],
            ["mdfl", "report", self.folder, f"--figure={self.figure}", f"--to={file}"],
        ]


GALLERY = (
    Entry(
        "grid",
        "A grid of clients",
        "Twenty clients, five of them mobile, under four mobility rules.",
        ["digits"],
        "accuracy",
        "configs.md#the-demo",
    ),
    Entry(
        "map",
        "Where they are, and where they go",
        "First places, ranges, and first steps of the mobile clients.",
        ["digits", "--config.rounds=40", "--config.seeds=2", "--config.sweep=network.mobility=dcm"],
        "map",
        "movement.md",
    ),
    Entry(
        "plane",
        "Mobility models of the plane",
        "Contacts under eight models at one mean speed.",
        ["waypoint_digits", "--config.seeds=3"],
        "contacts",
        "movement.md",
    ),
    Entry(
        "trace",
        "A recorded trace of a town",
        "Vehicles of a trace in SUMO's format.",
        ["trace_digits", "--config.seeds=3"],
        "map",
        "movement.md#your-own-traces",
    ),
    Entry(
        "city",
        "A hundred vehicles of a city",
        "Driving and parked vehicles of SUMO's traffic.",
        ["city:small"],
        "accuracy",
        "movement.md#a-city",
    ),
    Entry(
        "fedmobile",
        "A server that clients meet at times",
        "FedMobile relays models between meetings; its rivals wait.",
        ["fedmobile_digits"],
        "accuracy",
        "fedmobile.md",
    ),
    Entry(
        "roadside",
        "Road-side units",
        "Vehicles on a street grid meet the server at four units.",
        ["fedmobile_roadside", "--config.seeds=1"],
        "map",
        "fedmobile.md",
    ),
    Entry(
        "pame",
        "Partial messages",
        "PaME sends a part of each model: accuracy against the megabits sent.",
        [
            "pame:f3",
            "--config.sweep=algorithm.transmission=0.1,0.2,0.4,1",
            "--config.network.num_clients=32",
            "--config.algorithm.batch_size=0",
            "--config.rounds=60",
            "--config.eval_every=5",
            "--config.x_axis=bits",
        ],
        "accuracy",
        "pame.md",
    ),
    Entry(
        "theory",
        "Theory before training",
        "Connectivity, mixing and meeting times of the demo's networks.",
        ["digits", "--rounds=100"],
        "theory",
        "theory.md",
    ),
    Entry(
        "strategies",
        "Policies against each other",
        "Four rules in one setting of the arena.",
        ["arena:centre,rules=random_movement+dcm+waiting+staleness", "--config.seeds=4"],
        "final_accuracy",
        "strategies.md",
    ),
    Entry(
        "groups",
        "Fast and slow clients",
        "How far fast clients are ahead of slow ones (the thesis).",
        ["thesis_digits:p_non_iid", "--config.seeds=3"],
        "groups",
        "thesis.md",
    ),
    Entry(
        "costs",
        "Contacts that are too short",
        "A radio of three bandwidths, and which contacts carry a model.",
        ["costs", "--config.seeds=4"],
        "final_accuracy",
        "costs.md",
    ),
    Entry(
        "graphs",
        "Fixed graphs",
        "Five graphs of sixteen clients, without movement.",
        ["graphs_digits", "--config.seeds=3"],
        "accuracy",
        "graphs.md",
    ),
    Entry(
        "data",
        "Who holds what",
        "Samples of each class that each client holds.",
        ["digits", "--config.rounds=20", "--config.seeds=1", "--config.sweep=data.alpha=0.05,0.5"],
        "label_counts",
        "data.md",
    ),
)


def printed(words: Sequence[str]) -> str:
    """Return a command as a shell takes it.

    >>> printed(["mdfl", "sweep", "x", "--config.sweep=a=1,2; b=3"])
    'mdfl sweep x --config.sweep="a=1,2; b=3"'
    """

    def quote(word: str) -> str:
        flag, equals, value = word.partition("=")
        return f'{flag}{equals}"{value}"' if set(value) & set(" ;|&") else word

    return " ".join(map(quote, words))


def page() -> str:
    """Return the text of docs/gallery.md."""
    parts = [
        "# Gallery",
        "",
        "Each study takes seconds to minutes on two CPU cores, and needs no download."
        " `python -m benchmarks.gallery` runs them and writes this page.",
    ]
    for entry in GALLERY:
        parts += ["", f"## {entry.title}", "", f"{entry.text} [More]({entry.page})", ""]
        parts += [f"![{entry.title}](figures/gallery/{entry.name}.png)", "", "```"]
        parts += [*map(printed, entry.commands), "```"]
    return "\n".join([*parts, ""])


def make(entry: Entry, base: Path) -> None:
    """Run the commands of an entry in a folder, and keep its picture."""
    for words in entry.commands:
        print(printed(words), flush=True)
        there = {"PYTHONPATH": str(ROOT), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        command = [sys.executable, "-m", "mdfl_jax.cli.entry", *words[1:]]
        subprocess.run(command, cwd=base, check=True, env={**os.environ, **there})
    made = base / (f"{entry.folder}/theory.png" if entry.figure == "theory" else f"{entry.folder}.png")
    PICTURES.mkdir(parents=True, exist_ok=True)
    with Image.open(made) as picture:
        small = picture.convert("RGB").resize(
            (WIDTH, round(picture.height * WIDTH / picture.width)), Image.Resampling.LANCZOS
        )
    small.quantize(COLOURS).save(PICTURES / f"{entry.name}.png", optimize=True)


def main() -> None:
    """Make the pictures and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[entry.name for entry in GALLERY], help="make the picture of one study")
    parser.add_argument("--workdir", type=Path, help="keep the studies in this folder")
    parser.add_argument("--pages", action="store_true", help="write the page alone")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        base = flags.workdir or Path(temporary)
        base.mkdir(parents=True, exist_ok=True)
        for entry in GALLERY:
            if not flags.pages and flags.only in (None, entry.name):
                make(entry, base)
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
