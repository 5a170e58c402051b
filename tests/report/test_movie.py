"""The moving map: its file, that two are the same, whom it links, and mistakes as one line."""

import importlib.util
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mdfl_jax.core.errors import UserError
from mdfl_jax.report.movie import PER_ROUND, links_at, save_movie
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.world import GRID, World
from tests.report.conftest import write_workdir
from tests.report.recorded_rounds import add_records


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return read_workdir(add_records(write_workdir(tmp_path_factory.mktemp("movie"), seeds=1, rounds=20)))


def pictures(path: Path) -> list[np.ndarray]:
    with Image.open(path) as image:
        found = []
        for k in range(image.n_frames):
            image.seek(k)
            found.append(np.array(image.convert("RGB")))
        return found


def test_a_gif_has_its_size_and_moves_and_two_have_the_same_bytes(run, tmp_path):
    paths = [save_movie(run, tmp_path / f"{k}.gif", [2], rounds=3, fps=10, width=3.0) for k in range(2)]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    shown = pictures(paths[0])
    assert len(shown) == 3 * PER_ROUND + 1
    assert shown[0].shape[1] == 300
    differ = [(before != after).any(axis=-1) for before, after in pairwise(shown)]
    assert all(0 < changed.mean() < 0.5 for changed in differ)  # clients move, the ground stays
    with Image.open(paths[0]) as image:
        assert (image.info["duration"], image.info["loop"]) == (100, 0)


@pytest.mark.long
def test_two_points_and_the_end_of_a_study(run, tmp_path):
    path = save_movie(run, tmp_path / "all.gif", rounds=500)
    assert len(pictures(path)) == 20 * PER_ROUND + 1  # a study has no more rounds than it has
    assert path.stat().st_size < 3e6


@pytest.mark.long
def test_clients_on_a_circle_have_a_movie_too(tmp_path):
    folder = write_workdir(tmp_path / "run", [{"server.pattern": "fixed"}], seeds=1, rounds=6)
    shown = pictures(save_movie(read_workdir(add_records(folder, server=True)), tmp_path / "circle.gif"))
    assert 6 <= len(shown) <= 6 * PER_ROUND + 1  # equal pictures are one that lasts longer
    assert len({one.tobytes() for one in shown}) >= 4  # the links change


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=25, deadline=None)
def test_computed_links_are_those_of_a_slow_search(seed, swept):
    rng = np.random.default_rng(seed)
    path, radius = rng.integers(0, 8, (4, 5, 2)).astype(float), 2.0
    world = World(GRID, np.zeros(2), np.full(2, 8.0), radius=radius, swept=swept)
    for at in range(4):
        found = np.zeros((5, 5), bool)
        found[tuple(links_at(path, None, world, at).T)] = True
        for i in range(5):
            for j in range(5):
                if at == 3 or (swept and at == 0) or j <= i:
                    assert not found[i, j]
                    continue
                times = np.linspace(0, 1, 401)[:, None] if swept else np.ones((1, 1))
                ways = [path[max(0, at - 1), k] + times * (path[at, k] - path[max(0, at - 1), k]) for k in (i, j)]
                nearest = np.hypot(*(ways[0] - ways[1]).T).min()
                if not swept or abs(nearest - radius) > 1e-3:  # the search is not exact
                    assert found[i, j] == (nearest <= radius)


def test_recorded_links_are_taken_in_either_direction():
    hears = np.zeros((1, 3, 9, 9), bool)
    hears[0, 1, 2, 7] = hears[0, 1, 8, 0] = True
    world = World(GRID, np.zeros(2), np.ones(2))
    found = links_at(np.zeros((4, 9, 2)), np.packbits(hears, axis=-1), world, 1)
    assert sorted(found.tolist()) == [[0, 8], [2, 7]]
    assert not len(links_at(np.zeros((4, 9, 2)), np.packbits(hears, axis=-1), world, 3))


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("map.avi", {}, "ends in .gif or .mp4"),
        ("map.gif", {"points": [0, 1, 2]}, "one or two sweep points"),
        ("map.gif", {"points": []}, "one or two sweep points"),
        ("map.gif", {"rounds": 0}, "rounds=0: it must be between 1 and"),
        ("map.gif", {"fps": 99}, "fps=99: it must be between 1 and 50"),
        ("map.gif", {"width": 0.1}, "width=0.1"),
        ("none/map.gif", {"points": [0], "rounds": 1}, "cannot be written"),
    ],
)
def test_mistakes_are_one_line(run, tmp_path, name, options, said):
    with pytest.raises(UserError) as error:
        save_movie(run, tmp_path / name, **options)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_a_point_without_places_has_no_movie(tmp_path):
    run = read_workdir(write_workdir(tmp_path / "run", seeds=1, rounds=10, positions=False))
    for points in (None, [0]):
        with pytest.raises(UserError, match="neither places nor links were recorded"):
            save_movie(run, tmp_path / "map.gif", points)


def test_mp4_needs_ffmpeg(run, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"MP4 needs the program ffmpeg: pip install 'mdfl_jax\[movie\]'"):
        save_movie(run, tmp_path / "map.mp4")


def test_mp4_sends_its_pictures_to_ffmpeg(run, tmp_path, monkeypatch):
    ffmpeg = tmp_path / "ffmpeg"
    ffmpeg.write_text('#!/bin/sh\nfor last; do :; done\necho "$@" > "$last.told"\nexec cat > "$last"\n')
    ffmpeg.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(ffmpeg))
    path = save_movie(run, tmp_path / "map.mp4", [1], rounds=1, width=3.05)
    told = Path(f"{path}.told").read_text().split()
    width, height = map(int, told[told.index("-s") + 1].split("x"))
    assert (width % 2, height % 2) == (0, 0)
    assert path.stat().st_size == width * height * 3 * (PER_ROUND + 1)
    ffmpeg.write_text("#!/bin/sh\ncat > /dev/null\necho broken encoder >&2\nexit 1\n")
    with pytest.raises(UserError, match="broken encoder"):
        save_movie(run, tmp_path / "map.mp4", [1], rounds=1)
