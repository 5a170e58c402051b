"""What README.md and the pages of the site point at is there: pages, headings, files, modules, configs, keys.

The site has more pages than docs/ has files (docs/made_pages.py). A file links to files alone, which a reader of the
repository sees; the site makes links of the commands that print its other pages.
"""

import importlib
import re
import runpy
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from mdfl_jax.cli.families import listing
from mdfl_jax.config.resolve import check_key

ROOT = Path(__file__).parents[2]
SITE = runpy.run_path(str(ROOT / "docs" / "made_pages.py"))
FILES = {path: path.read_text() for path in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])}
PAGES = FILES | {ROOT / "docs" / path: text for path, text in SITE["PAGES"].items()}
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
FOLDERS = ("mdfl_jax", "launch", "benchmarks", "configs", "docs", "examples", "tests")
SOURCES = [ROOT / "setup.py", *(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*"))]
FENCE = re.compile(r"^(```+).*?^\1[ \t]*$", re.DOTALL | re.MULTILINE)
SECTIONS = "algorithm|data|engine|graph|model|motion|network|server|trace"


def prose(text):
    """A page without its blocks of code."""
    return FENCE.sub("", text)


def spans(text):
    """The pieces of code within the sentences of a page."""
    return re.findall(r"`([^`\n]+)`", prose(text))


def slugs(heading):
    """The anchors of a heading, as GitHub and as MkDocs make them."""
    plain = re.sub(r"[^\w\s-]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)).strip().lower()
    return plain.replace(" ", "-"), re.sub(r"[-\s]+", "-", plain)


@cache
def anchors(page):
    """The anchors of a page that both GitHub and MkDocs know."""
    headings = [slugs(heading) for heading in re.findall(r"^#{1,6} +(.+?) *$", prose(PAGES[page]), re.MULTILINE)]
    return {one for one, other in headings if one == other}


def links(text):
    """The relative links of a page, pictures among them."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(text))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_to_files_and_headings(page):
    for link in links(PAGES[page]):
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file() or (page not in FILES and target in PAGES), f"{link}: there is no such file"
        assert not anchor or anchor in anchors(target), f"{link}: there is no such heading; there are {anchors(target)}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_printed_commands_name_modules_configs_and_arguments(page):
    text = PAGES[page]
    for module in re.findall(r"python -m ((?:launch|benchmarks|examples)\.[\w.]*\w)", text):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), f"python -m {module}"
    studies = re.findall(r"\bmdfl (?:sweep|theory) (\w+)(?::(\w+))?(?![\w./])", text)
    for name, argument in {*studies, *re.findall(r"\bconfigs/(\w+)\.py(?::(\w+))?", text)}:
        if name.isupper():  # a placeholder, such as STUDY
            continue
        assert (ROOT / "configs" / f"{name}.py").is_file(), name
        if argument and not argument.isupper():
            assert importlib.import_module(f"configs.{name}").get_config(argument)
    for member in re.findall(r"--of=([\w.]*\w)", text):
        assert listing(member)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "extending.md"], ids=lambda page: page.name)
def test_printed_keys_are_fields(page):
    """Keys on command lines, in sweeps, and alone in a sentence. The examples of extending.md declare their own."""
    text = PAGES[page]
    keys = set(re.findall(r"--config\.([a-z_.]+)=", text))
    for sweep in re.findall(r"(?:sweep|baseline|select)=[\"']?([^\"'`\n]*)", text):
        keys |= set(re.findall(rf"\b((?:{SECTIONS})\.[a-z_0-9]+)", sweep))
    keys |= {key for span in spans(text) for key in re.findall(rf"^((?:{SECTIONS})\.[a-z_0-9]+)(?:=.*)?$", span)}
    for key in keys:
        check_key(key)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_files_that_are_named_exist(page):
    """As `algorithms/pame.py`, below any of the folders of code; `<name>.py` stands for any."""
    ends = [f"/{path.relative_to(ROOT)}" for path in SOURCES]
    for span in spans(PAGES[page]):
        if re.fullmatch(r"[\w/]+\.(py|json)", span) and span not in WRITTEN:
            assert any(end.endswith(f"/{span}") for end in ends), f"{span}: there is no such file"
        if re.fullmatch(r"[\w/]+/", span) and span not in WRITTEN:
            assert any(f"/{span}" in end for end in ends), f"{span}: there is no such folder"


FOLDERS = {"site/", "runs/", "workers/", "figures/"}
WRITTEN = {"config.json", "summary.json", "my_file.py"} | FOLDERS
"""Files that a user has, and no checkout."""


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_the_index_of_the_site_links_to_every_page_that_no_file_has():
    assert set(SITE["PAGES"]) <= set(links(SITE["linked"]((ROOT / "docs" / "index.md").read_text())))


def test_every_page_is_in_the_site():
    listed = (ROOT / "mkdocs.yml").read_text()
    for page in set(PAGES) - {ROOT / "README.md"}:
        assert f": {page.relative_to(ROOT / 'docs')}\n" in listed, f"{page.name} is not in the nav of mkdocs.yml"
