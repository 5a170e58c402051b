"""The files that are made of the records of a study, at any time: metrics.jsonl, summary.json and history.npz.

They are for people and for other tools. No code of this package reads them again.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mdfl_jax.results.results import StudyResults
from mdfl_jax.results.studies import read_records
from mdfl_jax.storage import disk
from mdfl_jax.storage.disk import write_arrays, write_json
from mdfl_jax.storage.provenance import together
from mdfl_jax.storage.study_files import CONFIG, METRICS, read_config, read_streets


def write_views(workdir: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Write metrics.jsonl, summary.json, history.npz and at last config.json of a study whose runs are all there.

    The caller has locked the workdir.

    Args:
      workdir: The folder of the study, with the records of its runs.
      manifest: The content of its config.json. How the study was made is taken from the records.

    Returns:
      The content of summary.json.

    Raises:
      UserError: If a record is absent or damaged.
      DiskError: If a file cannot be written.
    """
    records = read_records(workdir, manifest)
    every = [record for of_point in records for record in of_point]
    made = together([record.header["made"] for record in every])
    about = {name: value for name, value in manifest.items() if name != "parts"} | made | {"status": "finished"}
    results = StudyResults.of_records(about, records, workdir, read_streets(workdir))
    disk.write_text(workdir / METRICS, "".join(json.dumps(line) + "\n" for line in results.lines))
    write_json(workdir / "summary.json", results.summary)
    write_arrays(workdir / "history.npz", results.arrays, sum(record.nbytes for record in every))
    write_json(workdir / CONFIG, results.manifest)
    return results.summary


def list_files(workdir: Path, made: Iterable[Path]) -> None:
    """Note in config.json that a study has written files, beside those that each study writes.

    ``--overwrite`` removes no file that is not noted. The caller has locked the workdir.

    Args:
      workdir: The folder of the study.
      made: The files.
    """
    manifest = read_config(workdir)
    names = sorted({*manifest.get("files", ()), *(str(path.relative_to(workdir)) for path in made)})
    if names != manifest.get("files"):
        write_json(workdir / CONFIG, manifest | {"files": names})
