"""``python -m launch.sweep`` is the command ``mdfl sweep`` of a checkout: `mdfl_jax/cli/sweep.py`."""

import sys

if __name__ == "__main__":
    if not __package__:
        print("error: start it as mdfl sweep", file=sys.stderr)
        sys.exit(2)
    from mdfl_jax.cli import entry

    entry.start("sweep")
