"""Commands in processes of their own: what of their output does not depend on how busy the machine is."""

import re
import signal

_PROGRESS = re.compile(r"mdfl_jax: |compiling program |\d+ %: ")


def without_stages(text: str) -> str:
    """A text of standard error without the lines that tell how far a command is."""
    return "".join(line for line in text.splitlines(keepends=True) if not _PROGRESS.match(line))


def heed_interrupts() -> None:
    """As preexec_fn of `Popen`: the command heeds Ctrl-C, which scripts in the background ignore."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
