"""``python -m launch.theory`` is the command ``mdfl theory`` of a checkout: `mdfl_jax/contrib/theory/command.py`."""

import sys

if __name__ == "__main__":
    if not __package__:
        print("error: start it as mdfl theory", file=sys.stderr)
        sys.exit(2)
    from mdfl_jax.cli import entry

    entry.start("theory")
