"""Results as pandas tables, and the summary table for a notebook."""

import html
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from mdfl_jax.results.results import Results

NOT_METRICS = ("schema", "point", "seed", "round")  # the entries of a line of metrics.jsonl that are no metrics


def as_html(results: "Results") -> str:
    """Returns the summary table as HTML with a note below it. Every text of the study is escaped."""
    from mdfl_jax.report.tables import note, table

    def line(tag: str, cells: list[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

    header, rows = table(results.summary, results.config)
    body = "\n".join(line("td", row) for row in rows)
    below = html.escape(note(results.summary, results.config))
    return f"<table>\n<thead>{line('th', header)}</thead>\n<tbody>\n{body}\n</tbody>\n</table>\n<p>{below}</p>"


def of_runs(results: "Results") -> "pd.DataFrame":
    """Returns a row for each sweep point, seed and evaluated round, with the entries of metrics.jsonl as columns.

    A metric that was not measured is NaN.
    """
    import pandas as pd

    frame = pd.DataFrame(results.lines)
    for column in frame.columns.difference(NOT_METRICS):
        if frame[column].dtype == object:  # null, and infinity as the text "inf"
            frame[column] = frame[column].astype(float)
    return frame


def of_clients(results: "Results") -> "pd.DataFrame":
    """Returns a row for each sweep point, seed, evaluated round and client, with the metrics of clients as columns.

    A metric that a sweep point does not have is NaN.
    """
    import pandas as pd

    rounds = results.arrays["rounds"].astype(np.int64)  # as in the other table
    columns = [key for key, info in results.metrics.items() if info.dims == ("point", "seed", "round", "client")]
    frames = []
    for p, point in enumerate(results.points):
        mobile = results.arrays[f"{p}/is_mobile"]  # [S, N]
        seeds = results.seeds_of(p)
        size = (len(seeds), len(rounds), mobile.shape[1])
        axes = {"seed": np.array(seeds)[:, None, None], "round": rounds[:, None], "client": np.arange(size[2])}
        of_point: dict[str, Any] = {name: np.broadcast_to(values, size).ravel() for name, values in axes.items()}
        of_point["is_mobile"] = np.broadcast_to(mobile[:, None], size).ravel()
        for key in columns:
            values = results.arrays.get(f"{p}/{key}")
            of_point[key] = np.nan if values is None else values.ravel()
        frames.append(pd.DataFrame({"point": point, **of_point}))
    return pd.concat(frames, ignore_index=True)


def per_run(results: "Results", point: str, key: str) -> np.ndarray:
    """Returns an entry of metrics.jsonl for one sweep point as an array.

    Args:
      results: the results.
      point: the id of the sweep point.
      key: the entry, such as 'accuracy', the mean over the clients, or 'accuracy_min'.

    Returns:
      [S, E] float64; NaN where it was not measured.
    """
    seeds = {seed: s for s, seed in enumerate(results.seeds)}
    rounds = {int(r): e for e, r in enumerate(results.arrays["rounds"])}
    values = np.full((len(seeds), len(rounds)), np.nan)
    for line in results.lines:
        if line["point"] == point and line.get(key) is not None:
            values[seeds[line["seed"]], rounds[line["round"]]] = float(line[key])
    return values


def keys(results: "Results") -> list[str]:
    """Returns the metrics in metrics.jsonl: those with one number for each evaluation of each run."""
    return [key for key in dict.fromkeys(key for line in results.lines for key in line) if key not in NOT_METRICS]
