"""``python -m launch.data`` is the command ``mdfl data`` of a checkout: `mdfl_jax/contrib/describe/command.py`."""

import sys

if __name__ == "__main__":
    if not __package__:
        print("error: start it as mdfl data", file=sys.stderr)
        sys.exit(2)
    from mdfl_jax.cli import entry

    entry.start("data")
