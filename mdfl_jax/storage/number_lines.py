"""Text files of lines of whole numbers, such as tables of meetings and of stays."""

import csv
from pathlib import Path

import numpy as np

from mdfl_jax.core.errors import UserError


def whole_numbers(field: str, path: str, header: tuple[str, ...], what: str) -> np.ndarray:
    """Read a file of lines of whole numbers, whose first line may be the header: [n, len(header)] Python integers.

    Raises:
      UserError: If the file cannot be read, holds no line, or a line has another form.
    """
    rows = []
    try:
        with Path(path).open(newline="") as file:
            for number, row in enumerate(csv.reader(file), 1):
                if not row or (number == 1 and tuple(cell.strip() for cell in row) == header):
                    continue
                try:
                    rows.append([int(cell) for cell, _ in zip(row, header, strict=True)])
                except ValueError:
                    shown = ",".join(row)
                    raise UserError(f"{field} {path!r}, line {number}: {shown!r} is not {','.join(header)}") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{field} {path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not rows:
        raise UserError(f"{field} {path!r} holds no {what}")
    return np.array(rows, object)
