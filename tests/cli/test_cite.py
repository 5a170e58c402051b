"""`mdfl cite`: the software alone, a config file, and a study that has been run."""

import re

import pytest
import yaml
from made_study import made
from shell import ROOT
from small import TINY
from tiny import tiny_config

import mdfl_jax
from mdfl_jax.cli import cite
from mdfl_jax.contrib.merge.merge import merge
from mdfl_jax.core import papers
from mdfl_jax.core.errors import UserError
from mdfl_jax.report.setting import describe_making
from mdfl_jax.results.results import Results
from mdfl_jax.study import make_study
from mdfl_jax.study.workdir import manifest_of
from tests.report.made_report import edit


def keys(text):
    return re.findall(r"^@\w+\{(.+),$", text, re.M)


@pytest.mark.usefixtures("unregistered")
def test_it_prints_the_software_and_the_papers_of_all_members_also_of_ones_own(call, tmp_path):
    status, out, err = call(cite)
    assert (status, out, err) == (0, papers.papers()["mdfl_jax"].entry + "\n", "")
    entry = "@misc{mine,\n  author = {Me, Myself},\n  title = {Mine},\n  year = {2026},\n}"
    (tmp_path / "rule.py").write_text(
        "from mdfl_jax.networks.mixing import MIXINGS\n\n"
        f"@MIXINGS.register('mine', cite={entry!r})\ndef mine(inputs):\n    return inputs.adjacency\n"
    )
    (tmp_path / "tiny.py").write_text(TINY)
    sweep = "--config.sweep=algorithm.name=dpsgd,d2", "--config.baseline=", "--config.network.mixing=mine"
    status, out, err = call(cite, f"--config={tmp_path / 'tiny.py'}", f"--use={tmp_path / 'rule.py'}", *sweep)
    assert (status, err, keys(out)[0]) == (0, "", "mdfl_jax")
    assert {"lian2017", "tang2018d2", "madfl", "alpaydin1998"} <= set(keys(out))
    assert "% algorithm d2, algorithm 1\n@inproceedings{tang2018d2," in out
    assert f"% mixing mine\n{entry}" in out
    assert len(keys(out)) == len(set(keys(out)))
    with pytest.raises(UserError, match=r"unknown paper 'lian201' \(did you mean 'lian201[78]'\?\)"):
        papers.cited("lian201")


def test_a_study_keeps_what_to_cite_and_merged_studies_have_it_of_all(call, tmp_path):
    for name, rule in (("one", "static"), ("two", "dcm")):
        changes = {"sweep": f"network.mobility={rule}", "seeds": 1}
        made(tmp_path / name, **changes)
        cited = manifest_of(make_study(tiny_config(**changes)), {})["cite"]
        edit(tmp_path / name, "config", cite=cited)
    status, out, err = call(cite, f"--config={tmp_path / 'two'}")
    assert (status, err) == (0, "")
    assert "mobility dcm, eq. 13" in out
    facts = describe_making(Results.read(tmp_path / "two").shown())[0].entries
    (of_report,) = [entry.text for entry in facts if "cite" in entry.name]
    assert "Lian et al. 2017 (algorithm dpsgd). " in of_report
    assert of_report.endswith(". mdfl cite FOLDER prints the BibTeX entries")
    merge([tmp_path / "one", tmp_path / "two"], tmp_path / "both")
    both = call(cite, f"--config={tmp_path / 'both'}")[1]
    assert "mobility static, II-C" in both
    assert len(keys(both)) == len(set(keys(both)))


def test_every_entry_is_whole():
    """What BibTeX needs of each kind of entry, braces that close, and fields that no other one has twice."""
    needed = {"article": {"journal"}, "inproceedings": {"booktitle"}, "misc": {"title"}, "techreport": {"institution"},
              "incollection": {"booktitle", "publisher"}, "mastersthesis": {"school", "type"},
              "software": {"version"}}  # fmt: skip
    for key, paper in papers.papers().items():
        kind = re.match(r"@(\w+)\{", paper.entry)[1]
        assert {"author", "title", "year", *needed[kind]} <= set(paper.fields), key
        assert paper.entry.count("{") == paper.entry.count("}"), key
        assert len(re.findall(r"^  \w+ = ", paper.entry, re.M)) == len(paper.fields) == paper.entry.count("\n") - 1, key
        assert not re.search(r"[{}\\]", paper.short + paper.whole), key


def test_the_citation_file_says_what_the_package_says():
    """The keys that the schema of CITATION.cff 1.2.0 needs, and the version and the title of the package."""
    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(cff)
    assert cff["cff-version"] == "1.2.0"
    assert cff["type"] == "software"
    assert all("name" in author or {"family-names", "given-names"} <= set(author) for author in cff["authors"])
    software = papers.papers()[papers.SOFTWARE].fields
    assert cff["version"] == mdfl_jax.__version__ == software["version"]
    assert cff["title"] == software["title"]
    assert str(cff["date-released"])[:4] == software["year"]
    assert f"\n## {mdfl_jax.__version__}\n" in (ROOT / "CHANGELOG.md").read_text()
