"""``python -m launch.table`` is the command ``mdfl table`` of a checkout: `mdfl_jax/contrib/tables/command.py`."""

import sys

if __name__ == "__main__":
    if not __package__:
        print("error: start it as mdfl table", file=sys.stderr)
        sys.exit(2)
    from mdfl_jax.cli import entry

    entry.start("table")
