"""Cells of tables as people and tools save them. The module uses no JAX."""


def is_number(text: str) -> bool:
    """Tell whether a text is a number, as Python reads it."""
    try:
        float(text)
    except ValueError:
        return False
    return True
