"""Writes the map of one or two sweep points as a moving picture, GIF or MP4, for pages and talks."""

import importlib
import importlib.util
import shutil
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
from PIL import Image

from mdfl_jax.core.errors import UserError
from mdfl_jax.report.map_frames import pictures
from mdfl_jax.report.playback import first_pair, shown_points
from mdfl_jax.report.read import Run
from mdfl_jax.report.style import STYLE, looks
from mdfl_jax.report.world import worlds_of

DEFAULT_ROUNDS, DEFAULT_FPS, DEFAULT_WIDTH = 40, 12, 7.2
SHADES, SCALE, TINTS = 40, 48, 12  # the colours of a GIF: greys, the scale of the accuracies, tints of each sweep point


def save_movie(
    run: Run,
    path: Path,
    points: Sequence[int] | None = None,
    rounds: int | None = None,
    fps: int = DEFAULT_FPS,
    width: float = DEFAULT_WIDTH,
) -> Path:
    """Write the map of one or two sweep points as a GIF or an MP4 file. Two GIFs of one study have the same bytes.

    Args:
      run: the study.
      path: the file; its ending, .gif or .mp4, says the format. MP4 needs the program ffmpeg.
      points: the indices of one or two sweep points; None: the baseline and the best of the others.
      rounds: the number of rounds from the start; None: `DEFAULT_ROUNDS`, or all if they are fewer.
      fps: pictures a second. From one round to the next there are `PER_ROUND` pictures.
      width: the width in inches, at 100 pixels an inch.

    Returns:
      The path.

    Raises:
      UserError: for another ending, for points that have no map, for numbers out of bounds, if ffmpeg is missing, or if
        the file cannot be written.
    """
    path = Path(path)
    if path.suffix not in (".gif", ".mp4"):
        raise UserError(f"{path}: a movie ends in .gif or .mp4")
    encoder = _ffmpeg(path) if path.suffix == ".mp4" else ""
    chosen = first_pair(run, shown_points(run) or [0]) if points is None else list(points)
    _check(run, chosen, rounds, fps, width)
    with matplotlib.style.context(["default", STYLE, {"figure.constrained_layout.use": False}]):
        drawn = list(pictures(run, chosen, DEFAULT_ROUNDS if rounds is None else rounds, width))
    try:
        if encoder:
            _write_mp4(encoder, path, drawn, fps)
        else:
            _write_gif(path, drawn, fps, [looks(run)[p].colour for p in chosen])
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from None
    return path


def _check(run: Run, points: Sequence[int], rounds: int | None, fps: int, width: float) -> None:
    if len(points) not in (1, 2):
        ids = "; ".join(run.points[p]["id"] for p in points)
        raise UserError(f"--points={ids}: a movie has one or two sweep points")
    for p in points:
        if p not in worlds_of(run):
            raise UserError(f"point {run.points[p]['id']!r}: it has no map; neither places nor links were recorded")
    for name, value, low, high in (("rounds", rounds, 1, 10_000), ("fps", fps, 1, 50), ("width", width, 1, 20)):
        if value is not None and not low <= value <= high:
            raise UserError(f"--{name}={value}: it must be between {low} and {high}")


def _write_gif(path: Path, drawn: list[np.ndarray], fps: int, colours: Sequence[str]) -> None:
    """Write a GIF whose pictures share one palette; pixels that have not changed are transparent, which is short."""
    palette = _palette(colours)
    image = Image.new("P", (1, 1))
    image.putpalette(palette.ravel().tolist())
    whole = [np.array(Image.fromarray(one).quantize(palette=image, dither=Image.Dither.NONE)) for one in drawn]
    clear = len(palette)  # the index behind the last colour
    changed = [np.where(after == before, clear, after) for before, after in pairwise(whole)]
    first, *others = (_indexed(indices, palette) for indices in (whole[0], *changed))
    options: dict[str, Any] = {
        "duration": round(1000 / fps),
        "loop": 0,
        "transparency": clear,
        "disposal": 1,
        "optimize": False,
    }
    first.save(path, save_all=True, append_images=others, **options)


def _indexed(indices: np.ndarray, palette: np.ndarray) -> Image.Image:
    image = Image.fromarray(indices.astype(np.uint8), "P")
    image.putpalette([*palette.ravel().tolist(), 0, 0, 0])
    return image


def _palette(colours: Sequence[str]) -> np.ndarray:
    """Return the colours of a GIF, [K, 3] uint8: greys, the scale of the accuracies, tints of the points' colours."""
    greys = np.repeat(np.linspace(0, 1, SHADES)[:, None], 3, axis=1)
    scale = matplotlib.colormaps["viridis"](np.linspace(0, 1, SCALE))[:, :3]
    share = np.linspace(1, 0.15, TINTS)[:, None]
    tints = [share * np.array(matplotlib.colors.to_rgb(colour)) + 1 - share for colour in colours]
    return np.round(255 * np.concatenate([greys, scale, *tints])).astype(np.uint8)


def _ffmpeg(path: Path) -> str:
    """Return the path of the program ffmpeg, which is on the PATH or in the package imageio-ffmpeg.

    Raises:
      UserError: if there is none.
    """
    found = shutil.which("ffmpeg")
    if found is None and importlib.util.find_spec("imageio_ffmpeg"):
        found = importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
    if found is None:
        raise UserError(f"{path}: MP4 needs the program ffmpeg: pip install 'mdfl_jax[movie]', or write a .gif")
    return found


def _write_mp4(encoder: str, path: Path, drawn: list[np.ndarray], fps: int) -> None:
    """Send the pictures to ffmpeg.

    Raises:
      OSError: if it fails.
    """
    height, width = (size - size % 2 for size in drawn[0].shape[:2])  # the format takes even numbers only
    shape = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
    made = subprocess.run(
        [encoder, "-y", "-loglevel", "error", *shape, "-pix_fmt", "yuv420p", str(path)],
        input=b"".join(np.ascontiguousarray(one[:height, :width]).tobytes() for one in drawn),
        capture_output=True,
    )
    if made.returncode:
        raise OSError((made.stderr.decode(errors="replace").strip().splitlines() or ["ffmpeg failed"])[-1])
