"""Prints what a paper cites, as BibTeX: the software, and the papers of the entries that a study uses.

mdfl cite > software.bib
mdfl cite runs/digits > study.bib     of a study that has been run
mdfl cite fedmobile_digits            of a config file, or of the name of a shipped study
mdfl cite digits [--config.network.mobility=waiting]
"""

from pathlib import Path

from mdfl_jax.cli import common
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.papers import SOFTWARE, papers
from mdfl_jax.storage.study_files import CONFIG, read_config

WORDS, DOES = ("config",), ""
common.study_flags()


def main() -> int:
    """Print the entries."""
    given = common.flag_value("config")
    if given is None:
        print(papers()[SOFTWARE].entry)
        return 0
    from mdfl_jax.config.points import to_cite
    from mdfl_jax.core.papers import as_bibtex

    if (Path(given) / CONFIG).is_file():
        citations = read_config(Path(given)).get("cite")
        if not citations:
            raise UserError(
                f"{given}: an earlier version has run this study, and did not note what to cite; name its config"
            )
        print(as_bibtex(citations))
        return 0
    from mdfl_jax.config.points import points
    from mdfl_jax.config.resolve import resolve

    common.setup_jax("")
    print(as_bibtex(to_cite(points(resolve(common.config_of_flags())))))
    return 0
