"""Movies of the map are what one sees: they move, and their links are those of a slow search."""

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageSequence

from mdfl_jax.contrib.movie.movie import PER_ROUND, links_at, save_movie
from mdfl_jax.core.errors import UserError
from mdfl_jax.report.setting import GRID, World
from mdfl_jax.results.results import Results
from tests.report.conftest import write_workdir
from tests.report.made_report import add_records


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return Results.read(add_records(write_workdir(tmp_path_factory.mktemp("movie"), seeds=1, rounds=20))).shown()


def test_a_gif_has_its_size_and_moves_and_two_have_the_same_bytes(run, tmp_path):
    paths = [save_movie(run, tmp_path / f"{k}.gif", [2], rounds=3, fps=10, width=3.0) for k in range(2)]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with Image.open(paths[0]) as image:
        assert (image.n_frames, image.width, image.info["duration"]) == (3 * PER_ROUND + 1, 300, 100)
        shown = [np.array(frame.convert("RGB")) for frame in ImageSequence.Iterator(image)]
    differ = [(before != after).any(axis=-1) for before, after in pairwise(shown)]
    assert all(0 < changed.mean() < 0.5 for changed in differ)  # clients move, the ground stays


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


MISTAKES = [
    ("map.mp4", {}, "ends in .gif"),
    ("map.gif", {"points": [0, 1, 2]}, "one or two sweep points"),
    ("map.gif", {"rounds": 0}, "rounds=0: it must be between 1 and"),
    ("map.gif", {"fps": 99}, "fps=99: it must be between 1 and 50"),
    ("map.gif", {"width": 0.1}, "width=0.1"),
    ("none/map.gif", {"points": [0], "rounds": 1}, "cannot be written"),
]


def test_mistakes_are_one_line(run, tmp_path):
    for name, options, said in MISTAKES:
        with pytest.raises(UserError, match=f"^[^\n]*{re.escape(said)}[^\n]*$"):
            save_movie(run, tmp_path / name, **options)
    assert not list(tmp_path.iterdir())
    run = Results.read(write_workdir(tmp_path / "run", seeds=1, rounds=10, positions=False)).shown()
    with pytest.raises(UserError, match="neither places nor links were recorded"):
        save_movie(run, tmp_path / "map.gif")
