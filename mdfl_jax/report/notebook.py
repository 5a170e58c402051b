"""What a notebook shows of a study besides tables and pictures: the map of a run, which plays in a cell's output."""

import html
from typing import NamedTuple

from mdfl_jax.core.errors import UserError
from mdfl_jax.report.page import render_alone
from mdfl_jax.report.registry import FIGURES
from mdfl_jax.results.results import VIEWS, Results

HEIGHT = 640  # pixels of the output; the map is scrolled where it is higher


class Playback(NamedTuple):
    """A page that a notebook shows in a frame. The page needs no network, and the frame may do nothing but draw.

    Attributes:
      page: the page as HTML.
      title: what it shows.
    """

    page: str
    title: str

    def _repr_html_(self) -> str:
        """Return the frame for a notebook."""
        frame = f'width="100%" height="{HEIGHT}" style="border: 0" sandbox="allow-scripts"'
        return f'<iframe title="{html.escape(self.title)}" srcdoc="{html.escape(self.page)}" {frame}></iframe>'

    def __repr__(self) -> str:
        return f"<{self.title}; a notebook plays it>"


@VIEWS.register("map")
def _playback(run: Results) -> Playback:
    """Return the playback of the map of a run (`Results.map`).

    Raises:
      UserError: if the study has recorded nothing that a map shows.
    """
    study, panel = run.shown(), FIGURES["map"]
    if not panel.applies(study):
        raise UserError("map: the study has recorded no places and no links; run it with engine.record_positions=true")
    return Playback(render_alone(study, "map"), f"Map of {study.outcomes[0]['id']}, seed {study.manifest['seeds'][0]}")
