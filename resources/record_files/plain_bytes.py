"""A file's bytes, decompressed and in UTF-8: what the text formats read."""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from resources.errors import unreadable
from resources.record_files.batches import Compression, UnreadableFileError

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LONGEST_MARK: Final = 4


def byte_order_mark(start: bytes) -> tuple[bytes, str | None]:
    """The mark that a text begins with, and the encoding without a mark that it tells; nothing and None without one."""
    return next(((mark, name) for mark, name in _MARKS if start.startswith(mark)), (b"", None))


@contextmanager
def plain(path: Path, compression: Compression | None) -> Iterator[BinaryIO]:
    """Open a file's decompressed bytes for reading from the front.

    Raises:
        UnreadableFileError: the compressed data are broken, or end too soon; also while reading.
        FileNotFoundError: there is no such file.
        ConfigurationError: the file cannot be opened.
        ServerUnavailableError: the disk does not answer.
    """
    import pyarrow as pa

    try:
        with path.open("rb") as raw:
            if compression is None:
                yield raw
            elif compression is Compression.GZIP:
                with gzip.open(raw) as unpacked:
                    yield cast("BinaryIO", unpacked)
            else:
                if (start := raw.read(4)) and not _ZSTD_MAGIC.startswith(start[:4]):
                    raise UnreadableFileError("not zstd-compressed data, though its name says so")
                raw.seek(0)
                with pa.CompressedInputStream(raw, "zstd") as unpacked:
                    yield unpacked
    except EOFError as error:
        raise UnreadableFileError("the compressed data end too soon", incomplete=True) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise UnreadableFileError(f"broken gzip data: {error}") from error
    except FileNotFoundError:
        raise
    except OSError as error:
        # pyarrow reports what is wrong with compressed data as an OSError, too, without a number.
        if compression is Compression.ZSTD and error.errno is None:
            if "Truncated" in str(error):
                raise UnreadableFileError("the compressed data end too soon", incomplete=True) from error
            raise UnreadableFileError(f"broken zstd data: {error}") from error
        raise unreadable(path, error) from error


def utf8_blocks(stream: BinaryIO, encoding: str, block_bytes: int) -> Iterator[bytes]:
    """Yield the text of a stream as UTF-8, without a byte order mark; a mark goes before `encoding`.

    Lone surrogates, which some encodings can spell and UTF-8 cannot, become U+FFFD. Blocks of text that is UTF-8
    already are checked, and may end within a character.

    Raises:
        UnreadableFileError: bytes are not of the encoding.
    """
    start = stream.read(_LONGEST_MARK)
    mark, told = byte_order_mark(start)
    encoding = told or encoding
    decoder = codecs.getincrementaldecoder(encoding)()
    is_utf8 = codecs.lookup(encoding).name in {"utf-8", "ascii"}
    block, offset = start[len(mark) :], len(mark)
    while True:
        more = stream.read(block_bytes)
        block += more
        try:
            pending = len(decoder.getstate()[0])
            text = decoder.decode(block, final=not more)
        except UnicodeDecodeError as error:
            place = offset + error.start - pending
            raise UnreadableFileError(f"byte {place} is not {encoding}: set the source's encoding") from None
        except UnicodeError as error:  # such as UTF-16 of no known byte order
            raise UnreadableFileError(f"the text is not {encoding} ({error}): set the source's encoding") from None
        if is_utf8:
            yield block
        elif text:
            yield text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
        if not more:
            return
        offset += len(block)
        block = b""
