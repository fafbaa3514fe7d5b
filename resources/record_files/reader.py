"""The way in: reads any record file in batches of text."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from resources.errors import ConfigurationError
from resources.record_files import delimited, json_document, json_lines, parquet, workbook
from resources.record_files.batches import BATCH_BYTES, Compression, Dialect, FileKind, RecordBatch, RecordFormat
from resources.record_files.plain_bytes import plain


def read_batches(
    path: Path, kind: FileKind, fields: Sequence[str], dialect: Dialect | None = None
) -> Iterator[RecordBatch]:
    """Read one file from front to end in bounded memory.

    Args:
        path: the file.
        kind: its format and compression.
        fields: the columns (dotted paths in JSON) to give; all others go into EXTRA.
        dialect: how the source writes its files.

    Raises:
        UnreadableFileError: the file is not what it should be; batches given before do not count.
        FileNotFoundError: there is no such file.
        ConfigurationError: the file cannot be opened, or unpacked.
    """
    dialect = dialect or Dialect()
    wanted = list(dict.fromkeys(fields))
    if kind.format in {RecordFormat.PARQUET, RecordFormat.XLSX}:
        with _unpacked(path, kind.compression) as whole:
            if not whole.stat().st_size:
                return
            yield from (parquet if kind.format is RecordFormat.PARQUET else workbook).read(whole, wanted, dialect)
        return
    with plain(path, kind.compression) as stream:
        if kind.format is RecordFormat.JSONL:
            yield from json_lines.read(stream, wanted, dialect)
        elif kind.format is RecordFormat.JSON:
            yield from json_document.read(stream, wanted, dialect)
        else:
            delimiter = "\t" if kind.format is RecordFormat.TSV else dialect.delimiter
            yield from delimited.read(stream, wanted, encoding=dialect.encoding, delimiter=delimiter)


@contextmanager
def _unpacked(path: Path, compression: Compression | None) -> Iterator[Path]:
    """A file that can be read at any place."""
    if compression is None:
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="feedback-") as unpacked:
        with plain(path, compression) as stream:
            while chunk := stream.read(BATCH_BYTES):
                try:
                    unpacked.write(chunk)
                    unpacked.flush()
                except OSError as error:
                    raise ConfigurationError(
                        f"{unpacked.name} cannot be written ({error.strerror}): make room, or set TMPDIR to another "
                        "folder"
                    ) from error
        yield Path(unpacked.name)
