import gzip
import io
from pathlib import Path

import pyarrow as pa
import pytest

from resources.errors import ServerUnavailableError
from resources.record_files.batches import Compression, FileKind, RecordFormat, UnreadableFileError
from resources.record_files.plain_bytes import plain, utf8_blocks

TEXT = "a,b\n" + "1,two words\n" * 5_000


def zstd(content: bytes) -> bytes:
    packed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(packed, "zstd") as stream:
        stream.write(content)
    return packed.getvalue().to_pybytes()


PACK = {None: bytes, Compression.GZIP: gzip.compress, Compression.ZSTD: zstd}


def unpacked(path: Path, compression: Compression | None) -> bytes:
    with plain(path, compression) as stream:
        return stream.read()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.csv", FileKind(RecordFormat.CSV)),
        ("a.TXT", FileKind(RecordFormat.CSV)),
        ("a.b.tsv.gz", FileKind(RecordFormat.TSV, Compression.GZIP)),
        ("a.ndjson.zst", FileKind(RecordFormat.JSONL, Compression.ZSTD)),
        ("a.JSON.GZIP", FileKind(RecordFormat.JSON, Compression.GZIP)),
        ("a.parquet", FileKind(RecordFormat.PARQUET)),
        ("a.xlsx.zstd", FileKind(RecordFormat.XLSX, Compression.ZSTD)),
        ("a.gz", None),
        ("csv", None),
        ("gz", None),
        ("", None),
        ("a.csv.bz2", None),
    ],
)
def test_the_suffixes_name_the_kind(name: str, kind: FileKind | None) -> None:
    assert FileKind.of(name) == kind


@pytest.mark.parametrize("compression", [None, *Compression])
@pytest.mark.parametrize("text", ["", TEXT])
def test_what_was_packed_comes_out(tmp_path: Path, compression: Compression | None, text: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(PACK[compression](text.encode()))
    assert unpacked(path, compression).decode() == text


@pytest.mark.parametrize("compression", list(Compression))
def test_members_one_after_another_are_one_file(tmp_path: Path, compression: Compression) -> None:
    path = tmp_path / "file"
    path.write_bytes(PACK[compression](b"one\n") + PACK[compression](b"two\n"))
    assert unpacked(path, compression) == b"one\ntwo\n"


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("share", [0.2, 0.5, 0.99])
def test_packed_data_that_end_too_soon_are_incomplete(tmp_path: Path, compression: Compression, share: float) -> None:
    path = tmp_path / "file"
    packed = PACK[compression](TEXT.encode())
    path.write_bytes(packed[: int(len(packed) * share)])
    with pytest.raises(UnreadableFileError, match="end too soon") as raised:
        unpacked(path, compression)
    assert raised.value.incomplete


@pytest.mark.parametrize("compression", list(Compression))
def test_what_is_not_packed_is_said_to_be_broken(tmp_path: Path, compression: Compression) -> None:
    path = tmp_path / "file"
    path.write_bytes(TEXT.encode())
    with pytest.raises(UnreadableFileError, match=r"not zstd|broken gzip") as raised:
        unpacked(path, compression)
    assert not raised.value.incomplete


def test_broken_packed_data_are_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "file"
    packed = bytearray(gzip.compress(TEXT.encode()))
    packed[len(packed) // 2] ^= 0xFF
    path.write_bytes(packed)
    with pytest.raises(UnreadableFileError, match=r"broken gzip data|end too soon"):
        unpacked(path, Compression.GZIP)


def test_a_disk_that_fails_is_no_bad_file() -> None:
    """The first page of a process's memory cannot be read: the kernel answers as for a broken disk."""
    with pytest.raises(ServerUnavailableError, match=r"/proc/self/mem cannot be read .*: look after its disk"):
        unpacked(Path("/proc/self/mem"), None)


def test_a_file_that_is_not_there_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        unpacked(tmp_path / "nothing", None)


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 64])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-32", "cp1252", "utf-8-sig"])
def test_text_is_the_same_in_every_encoding(encoding: str, block_bytes: int) -> None:
    text = "é“ü”\r\nx" if encoding != "cp1252" else "é“ü”\r\n"
    stream = io.BytesIO(text.encode(encoding))
    assert b"".join(utf8_blocks(stream, encoding, block_bytes)).decode() == text


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 64])
@pytest.mark.parametrize(
    ("content", "place"), [(b"abc\xff", 3), (b"\xef\xbb\xbfabc\xff", 6), ("aé".encode() + b"\xc3", 3)]
)
def test_the_first_byte_that_does_not_fit_is_named(content: bytes, place: int, block_bytes: int) -> None:
    with pytest.raises(UnreadableFileError, match=f"byte {place} is not utf-8"):
        list(utf8_blocks(io.BytesIO(content), "utf-8", block_bytes))
