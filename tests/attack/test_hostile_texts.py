"""Texts that are code elsewhere, wherever a study has a text: in the page, LaTeX, CSV, SVG and on the terminal."""

import csv
import json
import re

import pytest
from forked import Started
from made_study import made

TEXTS = {
    "page": "</script><svg onload=x>&\"'",
    "LaTeX": r"\input{/etc/passwd}^^5cinput{x}$%#_~",
    "spreadsheet": '=cmd|"/c x"!A1',
    "plus": "+1+cmd",
    "at": "@SUM(1)",
    "terminal": "\x1b]0;title\x07\x1b[31mred\x9b2J\x00\x08",
    "right to left": "a\u202eb\u2066c\u2028d\u2029e\x85f",
    "lines": "a\r\nb\tc\x0bd\x0ce",
}
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def hostile(folder, text):
    """Put a text wherever config.json of a workdir has one that is no name of a run, and return the folder."""
    path = folder / "config.json"
    found = json.loads(path.read_text())
    found |= {"name": text, "title": text, "command": text, "commit": text, "versions": {text: text}}
    for point in found["points"]:
        point["id"] = point["id"] + text
        point["overrides"] = {key: f"{text}{value}" for key, value in point["overrides"].items()}
        point["numbers"] = {**point.get("numbers", {}), "network.mobility": text, "data.name": text}
    found["config"] |= {"name": text, "title": text}
    path.write_text(json.dumps(found))
    return folder


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.faults) for kind in TEXTS])
def test_hostile_texts_of_a_study_of_others(tally, tmp_path, kind):
    text, folders = TEXTS[kind], [tmp_path / "one", tmp_path / "two"]
    for seed, folder in enumerate(folders):
        made(folder, sweep="network.mobility=static,dcm; network.radius=2,3", first_seed=seed)
        hostile(folder, text)
    one, two = folders
    merge = ("merge", one, two, f"--workdir={tmp_path / 'merged'}")
    commands = [("report", one), ("table", one, f"--to={tmp_path / 'table.tex'}"), ("report", one, two), merge]
    for words in commands:
        ended = Started(tmp_path / "log", *words).ended()
        said = ended.out + ended.err
        verdict = "refused" if ended.status == 2 and "Traceback" not in said else "equal" if not ended.status else said
        assert not ended.status or words[0] == "merge", said  # whose runs have other settings than their records
        if found := CONTROL.search(said):
            verdict = f"the terminal gets {found[0]!r}: {said[max(0, found.start() - 40) :][:90]!r}"
        tally.add(f"a hostile text: {kind}", verdict, words[0])
    for path in tmp_path.rglob("*"):
        if path.suffix == ".html":
            page = path.read_text(encoding="utf-8")
            verdict = "equal" if "<svg onload" not in page and page.count("</script>") == page.count("<script") else "!"
        elif path.suffix == ".tex":
            verdict = "equal" if not re.search(r"\\input|\^\^5c", path.read_text()) else "LaTeX would read it"
        elif path.suffix == ".csv":
            cells = [cell for row in csv.reader(path.open(newline="")) for cell in row]
            bad = [
                cell for cell in cells if cell[:1] in "=+@\t\r" and cell and not re.fullmatch(r"[+-][\d.e+-]+", cell)
            ]
            verdict = "equal" if not bad else f"a spreadsheet would compute {bad[:3]}"
        elif path.suffix == ".svg":
            verdict = "equal" if "onload" not in path.read_text().replace("&lt;svg onload", "") else "!"
        else:
            continue
        tally.add(f"a hostile text: {kind}", verdict, path.relative_to(tmp_path))
    tally.check(4)
