"""`mdfl report`: one folder, several, one figure, and the mistakes of the command line, each in one line."""

import functools
import json
import shlex
import shutil
import signal

import pytest
from forked import Started, answers
from made_study import made

from tests.report.conftest import told_by_views, write_workdir
from tests.report.made_report import unfinish

MISTAKES = """
 => the folder of a study is missing: mdfl report DIR
nowhere => nowhere: no such directory
empty => empty: it holds no study: there is no config.json
old => old/config.json: schema is 0; this version reads schema 2
run run/../run => this study is given twice
run --x=bytes => the x axis is 'bytes'; this study has rounds,
run half --baseline=dmc => unknown baseline 'dmc' (did you mean 'dcm'?)
run --out=half => --out=half: it holds a study; choose another folder
run --out=no/both => --out=no/both: there is no folder 'no'
run/config.json => run/config.json: it is a file, not the folder of a study
run --figure=list --to=a.pdf => --figure=list prints the names of the figures, so --to=a.pdf has no effect
run --figure=mine --to=m.csv => one of your own needs --use=FILE
run --figure=acuracy --to=a.pdf => --figure=acuracy: unknown figure 'acuracy' (did you mean 'accuracy'?)
half --figure=label_counts --to=a.pdf => this study has not recorded what it shows; there are accuracy
run --figure=accuracy => --to=FILE is missing: the file of the figure, such as accuracy.pdf
run --figure=accuracy --to=a.bmp => --to=a.bmp: it must end in .png, .pdf, .svg, .csv
run --figure=accuracy --to=a.pdf --width=wide => --width=wide: it must be column (3.5 inches), page (7.2)
run --figure=accuracy --to=a.pdf '--points=dam; dmc' => unknown point 'dmc' (did you mean 'dcm'?)
run --to=a.pdf => --to is for one figure: add --figure=NAME
run --figure=accuracy --to=a.pdf --points=network.mobility=dmc => unknown point 'network.mobility=dmc'
run --follow --out=a.html => --follow writes the page alone, so it cannot be combined with --out
"""
WORKS = {
    "one": ["run", "--page_only"],
    "alias": ["--workdir=run", "--page_only", "--x=round"],
    "two": ["run", "half", "--out=both.html"],
    "beside": ["run", "half", "--page_only"],
    "names": ["run", "--figure=list"],
    "pdf": ["run", "--figure=accuracy", "--to=a.pdf", "--width=column", "--points=static; dcm"],
    "csv": ["run", "--figure=accuracy", "--to=a.csv", "--points=dcm"],
    "own": ["run", "--figure=mine", "--to=m.csv", "--use=mine.py"],
    "own page": ["run", "--out=own.html", "--use=mine.py"],
}
OWN = """from mdfl_jax.report.picture import Picture, Plot, Scale, Series
from mdfl_jax.report.registry import figure

@figure("mine", caption=lambda study: "A figure of somebody else.")
def mine(study):
    return Picture([Plot("", Scale("x"), Scale("y"), [Series("seven", "#0072B2", [0, 1], [7, 7])])], size=(3, 2))
"""

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a finished study, an unfinished one, and one of another schema."""
    folder = tmp_path_factory.mktemp("cli")
    write_workdir(folder / "run", positions=False)
    unfinish(write_workdir(folder / "half", positions=False), lambda row: row["round"] <= 20)
    (folder / "empty").mkdir()
    (folder / "mine.py").write_text(OWN)
    old = write_workdir(folder / "old", positions=False, seeds=1) / "config.json"
    old.write_text(json.dumps(json.loads(old.read_text()) | {"schema": 0}))
    return folder


@pytest.fixture(scope="module")
def answered(folder):
    """What each command line printed, of MISTAKES and of WORKS: (status, standard output, standard error)."""
    before, wrong = sorted(folder.rglob("*")), MISTAKES.strip("\n").splitlines()
    run = functools.partial(answers, folder.parent / "said", "report", cwd=folder, inside=told_by_views)
    found = run([shlex.split(line.partition(" => ")[0]) for line in wrong])
    assert sorted(folder.rglob("*")) == before  # a mistake writes nothing
    return dict(zip(wrong, found, strict=True)), dict(zip(WORKS, run(WORKS.values()), strict=True))


def test_a_mistake_is_one_line_and_status_2(answered):
    for line, (status, out, err) in answered[0].items():
        assert (status, out) == (2, ""), line
        assert err.startswith("error: "), line
        assert err.count("\n") == 1, line
        assert line.partition(" => ")[2] in err


def test_what_works(answered, folder):
    found = answered[1]
    assert all(ended.status == 0 for ended in found.values()), found
    assert found["one"].out == found["alias"].out == "run/report.html\n"
    assert found["two"].out == "both.html\n"
    assert "half: static" in (folder / "both.html").read_text()
    assert found["beside"].out == "compare-run-half/report.html\n"
    assert sorted(path.name for path in (folder / "compare-run-half").iterdir()) == ["report.html"]
    assert "seven" in (folder / "m.csv").read_text()
    assert "A figure of somebody else." in (folder / "own.html").read_text()
    assert "A figure of somebody else." not in (folder / "run" / "report.html").read_text()
    assert found["names"].out.startswith("accuracy ")
    assert {line.split(",")[1] for line in (folder / "a.csv").read_text().splitlines()[1:]} == {"dcm"}
    assert (folder / "a.pdf").read_bytes().startswith(b"%PDF")


def test_the_page_waits_for_a_study_and_is_written_until_the_study_has_finished(folder):
    later, reloads = folder / "later", "location.reload()"
    command = Started(folder.parent / "said", "mdfl", "report", "later", "--follow", cwd=folder)

    def until(text, *others):
        command.until(lambda: all(word in (later / "report.html").read_text() for word in (text, *others)))

    try:
        command.until(lambda: command.err.read_text() == "the page waits: later: there is no study yet\n")
        assert not later.exists()  # where the study can begin
        shutil.copytree(folder / "half", later)
        command.until(lambda: command.out.read_text() == "later/report.html\n")
        until("This study is unfinished", reloads)
        shutil.copytree(made(folder / "made", title="At last").workdir, later, dirs_exist_ok=True)
        assert command.ended().status == 0
    finally:
        command.kill(signal.SIGINT)
    page = (later / "report.html").read_text()
    assert "At last" in page
    assert reloads not in page
