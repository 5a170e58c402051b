"""``python -m launch.cite`` is the command ``mdfl cite`` of a checkout: `mdfl_jax/cli/cite.py`."""

import sys

if __name__ == "__main__":
    if not __package__:
        print("error: start it as mdfl cite", file=sys.stderr)
        sys.exit(2)
    from mdfl_jax.cli import entry

    entry.start("cite")
