"""Writes lines to a file in the order of the study's batches, whichever process finishes its batch first."""

from typing import TextIO


class OrderedLines:
    """Writes the lines of the batch whose turn it is, and keeps the lines of later batches until their turn."""

    def __init__(self, file: TextIO):
        self.file = file
        self.turn = 0
        self.kept: dict[int, str] = {}
        self.ended: set[int] = set()

    def write(self, number: int, text: str) -> None:
        """Adds whole lines to a batch."""
        if number == self.turn:
            self.file.write(text)
            self.file.flush()
        else:
            self.kept[number] = self.kept.get(number, "") + text

    def end(self, number: int) -> None:
        """Marks a batch as complete, and writes the kept lines of the batches whose turn has come."""
        self.ended.add(number)
        while self.turn in self.ended:
            self.turn += 1
            self.write(self.turn, self.kept.pop(self.turn, ""))
