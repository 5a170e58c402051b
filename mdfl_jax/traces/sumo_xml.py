"""What the readers of SUMO's XML files share: a stream through expat, without document types, with one-line errors."""

import abc
from pathlib import Path
from xml.parsers import expat

from mdfl_jax.core.errors import UserError
from mdfl_jax.traces.reading import LONGEST_LINE, check_count, opened, wrong

CHUNK = 1 << 18


class SumoReader(abc.ABC):
    """The expat handlers for one file. A subclass has `element`, which is called once for each element but the root.

    Attributes:
      kind: what the file is, for errors.
      root_tag: the name of its root element.
    """

    kind, root_tag = "", ""

    def __init__(self, path: str | Path):
        self.path = path
        self.parser = expat.ParserCreate()
        self.parser.ordered_attributes = True  # a list: a quarter faster than a dict
        self.parser.StartElementHandler = self.root
        self.parser.StartDoctypeDeclHandler = self.refuse

    @property
    def line(self) -> int:
        """The line of the file at which the parser is, from 1."""
        return self.parser.CurrentLineNumber

    def refuse(self, *_: object) -> None:
        """Refuse a document type, with which a small file can stand for a huge one."""
        wrong(self.path, f"a document type (DOCTYPE, entities) is refused; {self.kind} has none", self.line)

    def root(self, tag: str, _: list[str]) -> None:
        """Check the root element."""
        if tag != self.root_tag:
            wrong(self.path, f"the root element is <{tag}>; {self.kind} of SUMO has <{self.root_tag}>", self.line)
        self.parser.StartElementHandler = self.element

    @abc.abstractmethod
    def element(self, tag: str, attributes: list[str]) -> None:
        """Take an element; its attributes are names and values in turn."""

    def held(self) -> int:
        """Return how many things the reader keeps so far, which has a bound."""
        return 0

    def read(self) -> None:
        """Read the whole file, plain or gzip.

        Raises:
          UserError: for a file that cannot be read, is no XML or is cut off, or that a handler refuses.
        """
        final = False
        try:
            with opened(self.path) as stream:
                fed = 0
                while chunk := stream.read(CHUNK):
                    self.parser.Parse(chunk, False)
                    fed += len(chunk)
                    if fed - self.parser.CurrentByteIndex > LONGEST_LINE:  # which the parser keeps in memory
                        wrong(self.path, f"an element has more than {LONGEST_LINE:,} bytes", self.line)
                    check_count(self.path, self.held(), self.line)
            final = True
            self.parser.Parse(b"", True)
        except expat.ExpatError as error:
            if final:
                wrong(self.path, "the file is cut off: it ends within an element", error.lineno)
            wrong(self.path, f"it is not XML ({expat.ErrorString(error.code)})", error.lineno)
        except (LookupError, ValueError) as error:  # of the encoding that the file names
            if isinstance(error, UserError):
                raise
            wrong(self.path, f"it is not XML ({error})")
