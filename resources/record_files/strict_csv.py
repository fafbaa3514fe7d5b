"""CSV record by record with Python's own reader: for headers, and for text that breaks the grammar somewhere.

The quick way for well-formed text is `delimited.py`; both give the same records.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from typing import Final

from resources.record_files.batches import FIELD_LIMIT_CHARACTERS

SEPARATOR_DIRECTIVE: Final = re.compile(r"sep=([^\r\n\"])(?:\r\n|\r|\n|$)")
"""A first line that spreadsheets write to say which separator follows."""


def csv_records(lines: Sequence[str], delimiter: str) -> Iterator[tuple[int, int, list[str] | str]]:
    """Yield (index of the first line, index after the last, cells); cells are an error's text where the grammar breaks.

    Only the line on which a broken record starts is given up: a quote that is never closed must not swallow
    the rest of the file.
    """
    csv.field_size_limit(FIELD_LIMIT_CHARACTERS)
    start = 0
    while start < len(lines):
        reader = csv.reader(_from(lines, start), delimiter=delimiter, strict=True)
        done = start
        try:
            for cells in reader:
                yield done, start + reader.line_num, cells
                done = start + reader.line_num
            return
        except csv.Error as error:
            yield done, done + 1, str(error)
            start = done + 1


def _from(lines: Sequence[str], start: int) -> Iterator[str]:
    """The lines from `start` on, without a copy: a file may hold many broken ones."""
    for index in range(start, len(lines)):
        yield lines[index]
