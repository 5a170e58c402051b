"""Commands in processes of their own: what of their output does not depend on how busy the machine is."""


def without_stages(text: str) -> str:
    """A text of standard error without the lines that name a stage of more than a second."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("mdfl_jax: "))
