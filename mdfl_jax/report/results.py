"""The class `Results`: what a finished study has measured, with its figures and its report."""

import dataclasses
import html
from pathlib import Path
from typing import TYPE_CHECKING

from mdfl_jax.core.errors import UserError
from mdfl_jax.report.read import ROUNDS, ReportData, make_report_data
from mdfl_jax.results.results import StudyResults

if TYPE_CHECKING:
    from mdfl_jax.report.figures import Plots
    from mdfl_jax.report.notebook import Playback


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Results(StudyResults):
    """The results of a finished study, read from its files, with its figures and its report.

    ``results["loss"]`` is the metric 'loss' as an array with named axes, and ``results.plot`` makes figures. The
    attributes are those of `mdfl_jax.results.results.StudyResults`.
    """

    @property
    def plot(self) -> "Plots":
        """The figures of the study: ``results.plot.curves()``, ``results.plot.accuracy()``; printed, it lists them."""
        from mdfl_jax.report.figures import Plots  # Matplotlib takes half a second to import

        return Plots(self, self.report_data)

    def report(self, folder: str | Path | None = None, x: str = "") -> Path:
        """Write the tables, the figures and report.html.

        Args:
          folder: the folder for these files, which is made if it is absent. None: the workdir of the study.
          x: the x axis of the accuracy curves: "round", or a metric declared to be an axis, such as "messages" or
            "bits"; empty: the axis that the study's configuration names.

        Returns:
          The path of report.html.

        Raises:
          UserError: if no folder is given and the study has no workdir, if the folder holds another study or cannot
            be written to, or if there is no such axis.
        """
        from mdfl_jax.report.page import write

        if folder is None and self.workdir is None:
            raise UserError("report: the study has no workdir; give a folder: results.report('runs/report')")
        target = Path(folder or self.workdir or "")
        own = self.workdir is not None and target.resolve() == self.workdir.resolve()
        if not own and (target / "config.json").exists():
            raise UserError(f"report: folder is {str(target)!r}, which holds another study; choose another folder")
        found = self.report_data(x, target)
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"report: folder is {str(target)!r}; it cannot be made: {error.strerror}") from None
        return write(found)

    def map(self, point: int | str = 0, seed: int | None = None) -> "Playback":
        """Return the map of a run, which plays where a notebook shows it.

        Args:
          point: the index or the id of the sweep point.
          seed: the seed, one of ``results.seeds_of(point)``; None: the first one.

        Raises:
          UserError: for an unknown point or seed, or if the study has recorded nothing that a map shows.
        """
        from mdfl_jax.report.notebook import playback

        return playback(self.report_data_of(point, seed))

    def report_data_of(self, point: int | str = 0, seed: int | None = None) -> ReportData:
        """Return the results of one run in the form that the report draws. The arguments are those of `map`."""
        p = self.index_of(point)
        seeds, found = self.seeds_of(p), self.manifest["points"][p]
        seed = seeds[0] if seed is None else seed
        if seed not in seeds:
            raise UserError(f"the seed is {seed!r}; the study has {', '.join(map(str, seeds))}")
        s = seeds.index(seed)
        run = dataclasses.replace(
            self,
            manifest={**self.manifest, "points": [found], "seeds": [seed]},
            summary={**self.summary, "points": [{**self.summary["points"][p], "seeds": [seed]}], "selected": []},
            lines=[line for line in self.lines if (line["point"], line["seed"]) == (found["id"], seed)],
            arrays={
                "rounds": self.arrays["rounds"],
                **{
                    f"0/{key}": self.arrays[f"{p}/{key}"][s : s + 1]
                    for key in self.keys()
                    if f"{p}/{key}" in self.arrays
                },
            },
            workdir=self.workdir or Path(),
        )
        return make_report_data(run)

    def report_data(self, x: str = "", folder: Path | None = None) -> ReportData:
        """Return the results in the form that the report draws.

        Args:
          x: as in `report`.
          folder: the folder to which a report is written.

        Raises:
          UserError: if there is no such axis.
        """
        shown, home = self.declared.get(x), folder or self.workdir or Path()
        axis = ROUNDS if x == "round" else shown.name if shown else x
        return make_report_data(dataclasses.replace(self, workdir=home), axis)

    def _repr_html_(self) -> str:
        """Return the summary table for a notebook."""
        return _as_html(self)


def _as_html(results: StudyResults) -> str:
    """Return the summary table as HTML with a note below it. Every text of the study is escaped."""
    from mdfl_jax.report.tables import note, table  # needs the words of the page

    def line(tag: str, cells: list[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

    header, rows = table(results.summary, results.config)
    body = "\n".join(line("td", row) for row in rows)
    below = html.escape(note(results.summary, results.config))
    return f"<table>\n<thead>{line('th', header)}</thead>\n<tbody>\n{body}\n</tbody>\n</table>\n<p>{below}</p>"
