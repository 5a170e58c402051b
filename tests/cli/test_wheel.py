"""The built package, installed where no checkout is: one command, the shipped studies, nothing else at top level."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
FILES = "pyproject.toml setup.py MANIFEST.in README.md LICENSE CHANGELOG.md CITATION.cff CONTRIBUTING.md"
BUILT_FROM = ("mdfl_jax", "configs", "docs", "launch", "tests", *FILES.split())
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
IMPORTED = """
import sys
from mdfl_jax.cli import entry
sys.argv[0] = "mdfl"
try:
    entry.main()
finally:
    files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
    open("imported.txt", "w").write("\\n".join(sorted(files)))
"""


def done(*command, **settings):
    """Standard output of a command, which must succeed."""
    finished = subprocess.run([*map(str, command)], capture_output=True, text=True, **settings)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of what the package is built from."""
    if int(version("setuptools").split(".")[0]) < 77:
        pytest.skip("setuptools 77 or newer is needed to build the wheel")
    copy = tmp_path_factory.mktemp("checkout")
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def published(checkout, tmp_path_factory):
    """The folder of what is published: the sdist, and the wheel that is built from it, without network."""
    folder = tmp_path_factory.mktemp("published")
    make = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    done(sys.executable, "-c", make, cwd=checkout)
    (sdist,) = folder.glob("*.tar.gz")
    done(*PIP, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, sdist)
    return folder


@pytest.fixture(scope="module")
def wheel(published):
    """The wheel."""
    (found,) = published.glob("*.whl")
    return found


def environment(folder, *installed):
    """Makes an environment with a package and with the packages of this one; returns the folder of its commands."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    site = Path(done(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # The packages of a folder in a .pth file can be imported; its own .pth files, as of editable packages, do nothing.
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    done(*PIP, "--python", python, "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", *installed)
    return folder / "bin"


@pytest.fixture(scope="module")
def scripts(wheel, tmp_path_factory):
    """The folder of python and mdfl in an environment with the wheel."""
    return environment(tmp_path_factory.mktemp("environment"), wheel)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty current folder, and an environment without a path to the checkout."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XLA_FLAGS", "")
    return tmp_path


def from_the_checkout():
    """The files of the checkout that the last command imported, other than packages of its environment."""
    files = Path("imported.txt").read_text().splitlines()
    assert any("shipped" in file or "mdfl_jax" in file for file in files)
    folders = tuple(f"{ROOT / name}{os.sep}" for name in ("mdfl_jax", "configs", "launch", "tests", "benchmarks"))
    return [file for file in files if file.startswith(folders)]


def test_the_wheel_holds_the_package_alone(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.partition("/")[0] for name in names}
    assert top == {"mdfl_jax", f"mdfl_jax-{version('mdfl_jax')}.dist-info"}
    below = {name for name in names if name.startswith("mdfl_jax/")}
    shipped = {f"mdfl_jax/shipped/configs/{path.name}" for path in (ROOT / "configs").glob("*.py")}
    assert shipped <= below
    assert {f"mdfl_jax/shipped/configs/data/{name}" for name in ("town.fcd.xml.gz", "ring_15.txt")} <= below
    for path in (ROOT / "mdfl_jax").rglob("*.py"):
        assert str(path.relative_to(ROOT)) in below


def test_what_is_published_is_sound(published):
    """As an index checks it before it takes a package, and with what a reader looks for."""
    (sdist,) = published.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"CITATION.cff", "CHANGELOG.md", "LICENSE", "docs/extending.md", "mdfl_jax/core/papers.bib"} <= names
    pytest.importorskip("twine")
    out = done(sys.executable, "-m", "twine", "check", "--strict", *published.iterdir())
    assert out.count("PASSED") == 2


SHORT = ["--config.rounds=2", "--config.eval_every=2", "--config.seeds=1", "--config.model.name=linear", "--cache="]


def test_a_shipped_study_with_a_member_of_ones_own_its_report_and_the_list_of_members(scripts, elsewhere):
    python = [scripts / "python", "-c", IMPORTED]
    plan = done(*python, "sweep", "digits", *SHORT, "--dry_run")
    assert plan.startswith("digits: 4 points x 1 seeds = 4 runs of 2 rounds")
    assert from_the_checkout() == []
    assert "wrote mine.py" in done(scripts / "mdfl", "new", "mobility", "mine")
    Path("study.py").write_text(
        "from configs import digits\n\ndef get_config():\n    config = digits.get_config()\n"
        "    config.use = 'mine.py'\n"
        "    config.network.mobility, config.sweep, config.baseline = 'mine', '', ''\n    return config\n"
    )
    done(*python, "sweep", "./study.py", *SHORT, "--config.motion.patience=0.3", "--noreport", "--workdir=out")
    assert from_the_checkout() == []
    manifest = json.loads(Path("out/config.json").read_text())
    assert manifest["points"][0]["numbers"]["motion.patience"] == 0.3
    assert manifest["command"].startswith("mdfl sweep ./study.py --config.rounds=2")
    assert done(scripts / "mdfl", "report", "out") == "out/report.html\n"
    assert Path("out/report.html").is_file()
    listed = done(scripts / "mdfl", "info", "--list")
    assert "\n  pame  " in listed
    assert "\n  dcm  " in listed


def test_an_editable_installation_uses_the_configs_of_its_checkout(checkout, elsewhere, tmp_path_factory):
    editable = environment(tmp_path_factory.mktemp("editable"), "--editable", checkout)
    text = (checkout / "configs" / "digits.py").read_text()
    assert text.count('config.name = "digits"') == 1
    (checkout / "configs" / "digits.py").write_text(text.replace('config.name = "digits"', 'config.name = "edited"'))
    assert done(editable / "mdfl", "sweep", "digits", *SHORT, "--dry_run").startswith("edited: 4 points")
