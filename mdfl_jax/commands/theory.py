"""Prints what theory says of a study, without running it: mdfl theory fedmobile_digits, or python -m launch.theory

python -m launch.theory --config=configs/fedmobile_digits.py [--config.server.pairs=0.1]

For each sweep point that searches for relays in set intervals: the longest and the mean gap between two meetings with
the server (slots), the largest ages C and D of updates and of models (FedMobile, lemmas 1 and 2), and the chances Q_u
and Q_d that an interval holds a semi-qualified relay (proposition 2).
"""

from absl import flags

from mdfl_jax.commands import common, shipped
from mdfl_jax.errors import UserError

WORDS = {"config": shipped.find}
DOES = "working out the theory"
_CONFIG = common.config_flag()
_USE = common.use_flag()
flags.declare_key_flag("config")


def main() -> int:
    """Prints a line for each sweep point."""
    if _CONFIG.value is None:
        raise UserError("--config=FILE is missing, for example --config=configs/fedmobile_digits.py")
    common.setup_jax("", only_cpu=True)
    from mdfl_jax.experiments.config.points import points
    from mdfl_jax.experiments.config.resolve import resolve
    from mdfl_jax.experiments.config.use import with_files
    from mdfl_jax.theory.study import table

    with_files(_CONFIG.value, _USE.value)
    print(table(points(resolve(_CONFIG.value))))
    return 0


if __name__ == "__main__":
    common.run(main)
