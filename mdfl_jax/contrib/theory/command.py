"""Prints what theory says of a study, without running it.

mdfl theory digits [--config.network.radius=2] [--seeds=100] [--rounds=1000]

For each sweep point whose clients mix their models: the graphs of the rounds, lambda_2 and p of MADFL, union windows,
bounds, meeting and cover times, and PaME's conditions, from the network alone, the mean over seeds with the 95 %
interval (docs/theory.md). For each sweep point that searches for relays in set intervals: the longest and the mean gap
between two meetings with the server (slots), the largest ages C and D of updates and of models (FedMobile, lemmas 1 and
2), and the chances Q_u and Q_d that an interval holds a semi-qualified relay (proposition 2).
"""

import json
from pathlib import Path

from absl import flags

from mdfl_jax.cli import common
from mdfl_jax.core import program_cache
from mdfl_jax.core.errors import UserError

WORDS, DOES = ("config",), "working out the theory"
common.study_flags()
_SEEDS = flags.DEFINE_integer("seeds", 100, "Seeds under which networks are simulated.", lower_bound=1)
_ROUNDS = flags.DEFINE_integer("rounds", 0, "Rounds of a network; 0 takes the study's.", lower_bound=0)
_JSON = flags.DEFINE_string("json", "", "Write the numbers of the networks, of each seed, to this file too.")
_FIGURES = flags.DEFINE_string("figures", "", "Folder for the pictures theory.png, theory.pdf and theory.svg.")


def main() -> int:
    """Print the quantities of the networks, and a line for each sweep point that relays."""
    common.setup_jax(program_cache.default_folder(), only_cpu=True)
    from mdfl_jax.config.points import points
    from mdfl_jax.config.resolve import resolve
    from mdfl_jax.contrib.theory import fedmobile, network, pictures

    if _JSON.value and not Path(_JSON.value).absolute().parent.is_dir():
        raise UserError(f"--json={_JSON.value}: there is no folder {str(Path(_JSON.value).parent)!r}")
    if _FIGURES.value:
        pictures.check_folder(Path(_FIGURES.value))
    config = network.alone(common.config_of_flags(), _SEEDS.value, _ROUNDS.value)
    all_points = points(resolve(config))
    observed, relaying = network.of_config(config, all_points), fedmobile.relay_table(all_points)
    if not any(observed) and not relaying:
        raise UserError(
            "no point of this study has clients that mix their models over links, or FedMobile's search intervals with"
            " a server pattern of known gaps"
        )
    if any(observed):
        print(network.table(all_points, observed))
        if words := network.conclusion(all_points, observed):
            print(words)
    if relaying:
        print(relaying)
    content = network.as_json(all_points, observed, config)
    if _JSON.value:
        _write(Path(_JSON.value), json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    if _FIGURES.value and content["points"]:
        for path in pictures.save_theory(content["points"], Path(_FIGURES.value)):
            print(f"picture: {path}")
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise UserError(f"--json={path}: cannot be written ({error.strerror or error})") from error
