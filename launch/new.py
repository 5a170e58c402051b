"""``python -m launch.new`` is the command ``mdfl new`` of a checkout: `mdfl_jax/contrib/new/command.py`."""

import sys

if __name__ == "__main__":
    if not __package__:
        print("error: start it as mdfl new", file=sys.stderr)
        sys.exit(2)
    from mdfl_jax.cli import entry

    entry.start("new")
