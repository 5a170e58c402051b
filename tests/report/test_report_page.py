"""report.html and the launcher: what the page says, what it escapes, and how a user's mistake is told."""

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from made_study import made
from shell import without_stages

from mdfl_jax import Results
from mdfl_jax.core.errors import UserError
from mdfl_jax.report import page
from mdfl_jax.report.described import describe_making
from mdfl_jax.report.read import read_workdir

Maker = Callable[..., Path]


class Tags(HTMLParser):
    """Collects the tags and the addresses of a page, and that each tag is closed."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def without_scripts(text: str) -> str:
    """A page without the content of its scripts, some of which are a library's and the rest the panels' data."""
    return re.sub(r"(?s)(<script[^>]*>).*?(</script>)", r"\1\2", text)


def test_page_is_whole_self_contained_and_escaped(reported: Path) -> None:
    text = (reported / "report.html").read_text(encoding="utf-8")
    tags = Tags(text)
    assert not tags.open
    assert {"table", "nav", "dl", "script"} <= set(tags.seen)
    # A link leads to a section of the page, and a picture is within it (what scripts load: tests/report/browser).
    assert all(address.startswith(("data:image/png;base64,", "#")) for address in tags.addresses)
    outside = without_scripts(text)
    assert "<h1>Moves &amp; &lt;b&gt;&#34;mixes&#34;&lt;/b&gt;</h1>" in outside
    assert "<b>" not in outside
    assert not re.search(r"https?://|@import|url\(", outside)
    assert len(text) < 6e6


def test_page_tells_the_verdict_the_setting_the_captions_and_the_making(reported: Path) -> None:
    text = without_scripts((reported / "report.html").read_text(encoding="utf-8"))
    assert re.search(r'<p class="verdict">dcm (is best|has the highest mean): [0-9.]+ ± [0-9.]+ % final test acc', text)
    assert "8 clients, 2 of them mobile, train cnn on mnist with dpsgd." in text
    assert "Mobility is static, random movement, dam or dcm on a grid of 10 x 10" in text
    assert "mean over 3 seeds" in text
    assert "The labels are divided very unequally" in text
    assert "<dd>2 x TFRT_CPU</dd>" in text
    assert "<dd>0 to 2</dd>" in text  # the seeds
    for said in ("python -m launch.sweep --config=configs/synthetic.py", "0123abc", "jax 0.10.2", "12.8 s to compile"):
        assert said in text


def test_every_text_of_the_run_is_escaped(make_workdir: Maker) -> None:
    mark = "</script><img src=x>"
    folder = make_workdir([{"data.name": mark}, {"data.name": "$a_1$"}], positions=False, rounds=10)
    edit(folder / "config.json", command=mark, commit=mark, devices=[mark], name=mark, title=mark)
    edit(folder / "config.json", versions={mark: mark}, config={"target": None, "rounds": 10, mark: 1})
    text = page.render(read_workdir(folder))
    tags = Tags(text)
    assert not tags.open
    assert "x" not in tags.addresses
    assert text.count("&lt;/script&gt;&lt;img src=x&gt;") >= 7


def test_a_bare_configuration_still_makes_a_page(make_workdir: Maker) -> None:
    folder = make_workdir([{}], seeds=1, positions=False, rounds=10)
    edit(folder / "config.json", config={"rounds": 10})
    manifest = json.loads((folder / "config.json").read_text())
    kept = {key: manifest[key] for key in ("schema", "name", "config", "seeds", "points", "status")}
    (folder / "config.json").write_text(json.dumps(kept))
    text = without_scripts(page.render(read_workdir(folder)))
    assert "<title>synthetic</title>" in text
    assert "one seed, hence no interval" in text
    assert "None" not in text


def test_remarks_about_an_unfinished_study_stand_above_the_verdict(reported: Path) -> None:
    run = dataclasses.replace(read_workdir(reported), remarks=("Round 9 of 40 <so far>.",))
    text = page.render(run)
    assert text.index("<p>Round 9 of 40 &lt;so far&gt;.</p>") < text.index('<p class="verdict">')


def test_each_of_several_studies_says_how_it_was_made(reported: Path, make_workdir: Maker) -> None:
    run, other = read_workdir(reported), read_workdir(make_workdir(seeds=2))
    several = describe_making(dataclasses.replace(run, studies=(run, other)))
    assert [study.name for study in several] == [str(run.workdir), str(other.workdir)]
    assert [{e.name: e.text for e in study.entries}["Seeds"] for study in several] == ["0 to 2", "0, 1"]
    assert [study.name for study in describe_making(run)] == [""]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("harm", [Path.unlink, truncate], ids=["absent", "truncated"])
def test_a_harmed_file_is_named_in_one_line(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    made(tmp_path / "run")
    path = next((tmp_path / "run" / "runs").iterdir())
    harm(path)
    with pytest.raises(UserError) as error:
        read_workdir(tmp_path / "run") if harm is truncate else Results.load(tmp_path / "run")
    assert "\n" not in str(error.value)
    assert str(path if harm is truncate else tmp_path / "run") in str(error.value)


def test_another_schema_and_missing_keys_are_refused(make_workdir: Maker) -> None:
    path = make_workdir(rounds=10) / "config.json"
    original = json.loads(path.read_text())
    edit(path, schema=1)
    with pytest.raises(UserError, match=r"schema is 1; this version reads schema 2; commit \w+ reads the studies"):
        read_workdir(path.parent)
    path.write_text(json.dumps({k: v for k, v in original.items() if k != "seeds"}))
    with pytest.raises(UserError, match=r"config\.json: lacks 'seeds'"):
        read_workdir(path.parent)


def test_metrics_without_a_point_and_odd_arrays_are_refused(make_workdir: Maker) -> None:
    folder = make_workdir(rounds=10)
    lines = [line for line in (folder / "metrics.jsonl").read_text().splitlines() if '"dam"' not in line]
    (folder / "metrics.jsonl").write_text("\n".join(lines))
    with pytest.raises(UserError, match=r"metrics\.jsonl: has no line for the point 'dam'"):
        read_workdir(folder)
    folder = make_workdir(rounds=10)
    np.savez(folder / "history.npz", **{"0/position": np.zeros((2, 3))})
    with pytest.raises(UserError, match=r"history\.npz: 0/position has shape \(2, 3\)"):
        page.render(read_workdir(folder))


def test_the_later_line_of_a_resumed_run_counts(make_workdir: Maker) -> None:
    folder = make_workdir(rounds=10)
    with open(folder / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"schema": 1, "point": "dam", "seed": 1, "round": 10, "accuracy": None}) + "\n\n")
        file.write(json.dumps({"schema": 1, "point": "dcm", "seed": 1, "round": 10, "accuracy": 0.125}) + "\n")
    curves = read_workdir(folder).curves
    assert curves["dcm"].accuracy[1, -1] == 0.125
    assert np.isnan(curves["dam"].accuracy[1, -1])


def launch(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "launch.report", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    done.stderr = without_stages(done.stderr)
    return done


def test_launcher_prints_the_page_or_exits_with_2_and_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    made(folder, seeds=1)
    done = launch(f"--workdir={folder}")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, str(folder / "report.html"), "")
    absent = launch(f"--workdir={tmp_path / 'nowhere'}")
    assert (absent.returncode, absent.stdout) == (2, "")
    assert absent.stderr == f"error: {tmp_path / 'nowhere'}: no such directory\n"


def test_a_page_that_cannot_be_written_leaves_the_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    page.save(path, "first")
    with pytest.raises(UnicodeEncodeError):
        page.save(path, "second \ud800")
    assert path.read_text() == "first"
    page.save(path, "third")
    assert (path.read_text(), list(tmp_path.iterdir())) == ("third", [path])
