"""``python -m launch.merge`` is the command ``mdfl merge`` of a checkout: `mdfl_jax/contrib/merge/command.py`."""

import sys

if __name__ == "__main__":
    if not __package__:
        print("error: start it as mdfl merge", file=sys.stderr)
        sys.exit(2)
    from mdfl_jax.cli import entry

    entry.start("merge")
