"""Any bytes, under any contract: a day's files are read, and each of their records is a row or a dead letter.

Most of it goes one level below the asset, which takes a second a run: the plan and the reader of a day, over a real
landing zone.
"""

import codecs
import csv
import io
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import polars as pl
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from platform_assets.day_plan import plan_day
from platform_assets.day_reader import DayTables, IncompleteFileError, read_day
from platform_assets.domain.raw_feedback import Reason
from platform_assets.domain.tables import TABLES
from platform_assets.file_ledger import Entry, FileLedger
from platform_assets.settings import Settings
from resources.delta_lake import PARTITION_COLUMN
from resources.triton import TritonResource
from tests.made_files import PACKED, parquet, workbook
from tests.project import make_project, materialized
from tests.rfc4180 import rfc_4180

DAY = date(2026, 9, 1)
INGESTION = ("raw_feedback", "quarantined_feedback", "landed_files")
TEXT_FORMATS = ("csv", "tsv", "jsonl", "json")
FORMATS = (*TEXT_FORMATS, "parquet", "xlsx")
LONG_AGO: Final = (1_700_000_000, 1_700_000_000)

FUZZ = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)

Contract: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Made:
    """A file to land: its name below the day, and its bytes."""

    name: str
    content: bytes


@dataclass(frozen=True)
class Tables:
    """What became of a day."""

    rows: pl.DataFrame
    letters: pl.DataFrame
    ledger: pl.DataFrame


class Day:
    """A project's day, read the way the asset reads it."""

    def __init__(self, root: Path, *contracts: Contract) -> None:
        (root / "config").mkdir()
        (root / "config" / "platform.yaml").write_text("{}")
        (root / "config" / "sources.yaml").write_text(sources_yaml(contracts))
        self.settings = Settings(root)
        self.folder = root / "landing" / DAY.isoformat()
        self.folder.mkdir(parents=True)
        self._ledger = FileLedger([])

    def read(self, *, patient: bool = False) -> Tables:
        """Read the day without storing it; only its ledger is remembered."""
        with closing(self._read(self._ledger, patient=patient)) as staged:
            rows, letters = (
                pl.concat([pl.DataFrame(schema={name: part.schema[name] for name in names}), *part.frames(names)])
                for part in (staged.loaded, staged.quarantined)
                for names in [[name for name in part.schema if name != PARTITION_COLUMN]]
            )
            entries = staged.ledger.select(*Entry.__dataclass_fields__)
            self._ledger = FileLedger([Entry(*row) for row in entries.iter_rows()])
            return Tables(rows, letters, staged.ledger)

    def read_and_store(self) -> Tables:
        """Read the day, and give what its tables then hold."""
        lake = self.settings.lake()
        staged = self._read(FileLedger.of(lake), patient=False)
        lake.publish("raw_feedback", staged.loaded)
        lake.publish("quarantined_feedback", staged.quarantined)
        lake.replace("landed_files", staged.ledger, {PARTITION_COLUMN: DAY})
        return Tables(*(lake.scan_partition(table, DAY).collect() for table in INGESTION))

    def _read(self, ledger: FileLedger, *, patient: bool) -> DayTables:
        landing = self.settings.landing()
        plan = plan_day(DAY, landing, self.settings, ledger, datetime.now(UTC))
        return read_day(plan, landing, self.settings.lake(), patient=patient)


@contextmanager
def a_day(*contracts: Contract) -> Iterator[Day]:
    """A day of sources s0, s1, …, whose files are named s0-…, s1-…"""
    with tempfile.TemporaryDirectory() as root:
        yield Day(Path(root), *contracts)


def sources_yaml(contracts: tuple[Contract, ...]) -> str:
    return json.dumps({"sources": {f"s{no}": {**one, "files": [f"s{no}-*"]} for no, one in enumerate(contracts)}})


def put(folder: Path, *files: Made) -> None:
    for file in files:
        path = folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)


# What holds for every day


def check(tables: Tables) -> None:
    rows, letters, ledger = tables.rows, tables.letters, tables.ledger
    for table, frame in zip(INGESTION, (rows, letters, ledger), strict=True):
        assert frame.schema == {name: TABLES[table][name] for name in frame.columns}
        frame.rows()  # a time beyond the calendar cannot be read
    loaded, quarantined = Counter(rows["file_uri"]), Counter(letters["file_uri"])
    assert ledger.select("file_uri", "records", "loaded", "quarantined").rows() == [
        (uri, loaded[uri] + quarantined[uri], loaded[uri], quarantined[uri]) for uri in ledger["file_uri"]
    ]
    assert {*loaded, *quarantined} <= set(ledger["file_uri"]), "records of no file"
    assert ledger["file_uri"].is_unique().all()
    assert rows["feedback_id"].is_unique().all()
    assert not any(rows.drop("rating", "author_id", "language").null_count().row(0))
    places = pl.concat([table.select("file_uri", "line_no") for table in (rows, letters)])
    # A JSON document may hold all of its records in one line.
    assert places.filter(~pl.col("file_uri").str.contains(r"\.json\b")).is_unique().all(), "a record counts twice"
    for line_no, raw, reason, detail in letters.select("line_no", "raw", "reason", "detail").iter_rows():
        of_whole_file = Reason(reason) in {Reason.UNREADABLE_FILE, Reason.INCOMPLETE_FILE, Reason.UNKNOWN_SOURCE}
        assert ((line_no, raw) == (0, "")) == of_whole_file
        assert detail


def check_winners(tables: Tables) -> None:
    """A superseded record leads to the row that stands in its place."""
    places = set(tables.rows.select("file_uri", "line_no").iter_rows())
    for detail in tables.letters.filter(reason=Reason.SUPERSEDED)["detail"]:
        winner = re.search(r"stands in (.+) line (\d+), which is kept$", detail)
        assert winner
        assert (winner[1], int(winner[2])) in places


def check_same(before: Tables, after: Tables) -> None:
    assert_frame_equal(before.rows, after.rows)
    assert_frame_equal(before.letters, after.letters)
    assert_frame_equal(before.ledger, after.ledger)


# What contracts and files are made of

NAMES: Final = {
    "text": ["comment", "Text (full)", "ticket.message", "text", "Ärger"],
    "source_record_id": ["id", "ticket.id", "text"],
    "created_at": ["at", "ticket.created"],
    "rating": ["stars"],
    "author_id": ["who"],
    "language": ["id", "lang"],
    "channel": ["via"],
}
VALUES: Final = {
    "text": ["fine", "x, y", 'a "b"', "two\nlines", "été “ok”", "\U0001f600", "nul\x00", "", "   ", ";", "a\rb", None],
    "source_record_id": ["1", "1", "2", "00123", "12345678901234567890", "1,23457E+15", "", " A1 ", "a\x00b", None],
    "created_at": [
        *("2024-03-31T02:30:00", "2024-03-31T02:30:00+02:00", "31/03/2024 02:30", "1711848600", "never", "", None),
        *("9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00", "+12345-01-01T00:00:00Z"),
    ],
    "rating": ["1", "5", "4,5", "4.5", "9", "five", "nan", "", None],
}
ANYTHING: Final = ["", "x", "1", "\u2028", "'", None]
BITS: Final = [
    *(b"\n", b"\r", b"\r\n", b'"', b'""', b",", b";", b"\t", b"\x00", b"\xff", b"\xed\xa0\xbd", b"\xef\xbb\xbf"),
    *(b"\xff\xfe", b"{", b"}", b"[", b"]", b":", b"\\", b"\\ud83d", b"1e999", b"NaN", b"null", b"PAR1"),
    *(b"PK\x03\x04", b"sep=;\n", b"\x93\xe9\x85\x94"),
]

contracts = st.fixed_dictionaries(
    {
        "columns": st.fixed_dictionaries(
            {"text": st.sampled_from(NAMES["text"])},
            optional={ours: st.sampled_from(theirs) for ours, theirs in NAMES.items() if ours != "text"},
        )
    },
    optional={
        "encoding": st.sampled_from(["utf-8", "cp1252", "utf-16", "utf-16-le", "utf-8-sig", "shift_jis", "latin-1"]),
        "delimiter": st.sampled_from([",", ";", "|", "¦", " "]),
        "decimal_mark": st.sampled_from([".", ","]),
        "record_path": st.sampled_from(["items", "ticket.list", ""]),
        "sheet": st.sampled_from(["Sheet1", "Other"]),
        "time_zone": st.sampled_from(["Europe/Berlin", "UTC", "America/New_York"]),
        "time_format": st.sampled_from(["%d/%m/%Y %H:%M", "%Y-%m-%dT%H:%M:%S%#z", "%s"]),
        "epoch_unit": st.sampled_from(["s", "ms", "us", "ns"]),
        "rating_range": st.sampled_from([[1, 5], [-10, 10]]),
        "dedupe": st.sampled_from(["last", "first", "newest"]),
    },
)


@st.composite
def records(draw: st.DrawFn, contract: Contract) -> tuple[list[str], list[tuple[str | None, ...]]]:
    """Column names and rows: mostly with the columns of a contract, and with others."""
    ours = {theirs: name for name, theirs in contract["columns"].items()}
    others = draw(st.lists(st.sampled_from(["more", "Ärger", ""]), unique=True))
    names = draw(st.permutations(list(dict.fromkeys([*ours, *others]))))
    if draw(st.integers(0, 9)) == 0:
        names = names[1:]
    values = [st.sampled_from(VALUES.get(ours.get(name, ""), ANYTHING)) for name in names]
    return list(names), draw(st.lists(st.tuples(*values), max_size=12))


@st.composite
def real_looking(draw: st.DrawFn, contract: Contract, suffix: str) -> bytes:
    """A file as a program would write it, mostly as its contract says."""
    names, rows = draw(records(contract))
    if suffix == "parquet":
        return parquet({name: [row[place] for row in rows] for place, name in enumerate(names)})
    if suffix == "xlsx":
        return workbook([names, *rows])
    if suffix in {"csv", "tsv"}:
        written = io.StringIO()
        csv.writer(
            written,
            delimiter="\t" if suffix == "tsv" else draw(st.sampled_from([contract.get("delimiter", ","), ","])),
            lineterminator=draw(st.sampled_from(["\n", "\r\n"])),
            quoting=draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
        ).writerows([names, *rows])
        text = written.getvalue()
    else:
        objects = [json.dumps(nested(dict(zip(names, row, strict=True)))) for row in rows]
        text = "\n".join(objects)
        if suffix == "json":
            text = "[" + draw(st.sampled_from([", ", ",\n"])).join(objects) + "]"
            for key in reversed(contract["record_path"].split(".") if "record_path" in contract else []):
                text = json.dumps({key: None}).replace("null", text)
    return text.encode(draw(st.sampled_from([contract.get("encoding", "utf-8"), "utf-8", "utf-16"])), "replace")


def nested(record: dict[str, str | None]) -> dict[str, Any]:
    """A record whose dotted names are objects within objects."""
    whole: dict[str, Any] = {}
    for name, value in record.items():
        *path, last = name.split(".")
        place = whole
        for key in path:
            place = place.setdefault(key, {})
        place[last] = value
    return whole


Change: TypeAlias = Callable[[bytes, int, int, bytes], bytes]

CHANGES: Final[list[Change]] = [
    lambda content, start, _, __: content[:start],
    lambda content, start, _, bit: content[:start] + bit + content[start:],
    lambda content, start, _, bit: content[:start] + bit + content[start + len(bit) :],
    lambda content, start, stop, _: content[:stop] + content[start:],
]
"""Cut, insert, overwrite, and repeat or leave out."""


@st.composite
def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    for change in draw(st.lists(st.sampled_from(CHANGES), min_size=1, max_size=3)):
        start, stop = draw(st.integers(0, len(content))), draw(st.integers(0, len(content)))
        content = change(content, start, stop, draw(st.sampled_from(BITS)))
    return content


@st.composite
def files(draw: st.DrawFn, sources: list[Contract], suffixes: tuple[str, ...] = FORMATS) -> Made:
    """A file of some source or of none: any bytes or real-looking ones, broken before or after they were packed."""
    number = draw(st.integers(0, len(sources) - 1))
    suffix, packing = draw(st.sampled_from(suffixes)), draw(st.sampled_from(["", "", "", ".gz", ".zst"]))
    content = draw(st.binary(max_size=80) | real_looking(sources[number], suffix))
    if draw(st.booleans()):
        content = draw(mutated(content))
    content = PACKED[packing](content)
    if packing and draw(st.booleans()):
        content = draw(mutated(content))
    place = draw(st.sampled_from([f"s{number}-", f"s{number}-", f"s{number}/", "nobodys-"]))
    return Made(f"{place}{draw(st.integers(0, 3))}.{suffix}{packing}", content)


days = st.lists(contracts, min_size=1, max_size=2).flatmap(
    lambda sources: st.tuples(st.just(sources), st.lists(files(sources), min_size=1, max_size=5))
)


@given(made=days)
@settings(FUZZ, max_examples=200)
def test_any_files_of_a_day_become_rows_and_dead_letters(made: tuple[list[Contract], list[Made]]) -> None:
    sources, landed = made
    with a_day(*sources) as day:
        put(day.folder, *landed)
        found = day.read()
        check(found)
        check_winners(found)
        assert set(found.ledger["file_uri"]) == {f"{DAY}/{file.name}" for file in landed}
        check_same(found, day.read())


@given(
    contract=contracts,
    content=st.binary(max_size=200),
    suffix=st.sampled_from(FORMATS),
    packing=st.sampled_from(list(PACKED)),
    size=st.integers(0, 400),
)
@settings(FUZZ, max_examples=100)
def test_any_bytes_are_read_or_may_be_on_their_way(
    contract: Contract, content: bytes, suffix: str, packing: str, size: int
) -> None:
    """A file that may still grow is left alone for now, and nothing staged is left of its day."""
    with a_day(contract) as day:
        put(day.folder, Made(f"s0-1.{suffix}{packing}", PACKED[packing](content)[:size]))
        try:
            at_first = day.read(patient=True)
        except IncompleteFileError:
            found = day.read()
            assert found.letters["reason"].to_list() == [Reason.INCOMPLETE_FILE]
        else:
            found = day.read()
            check_same(at_first, found)
        check(found)
        assert not (day.settings.project / "data").exists()


# What the bytes of a text file say

MARKS: Final = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def decoded(content: bytes, encoding: str) -> str | None:
    """The text, by its mark or as declared; None where it is not in that encoding."""
    mark = next((mark for mark in MARKS if content.startswith(mark)), b"")
    if encoding == "utf-16" and content and not mark:
        return None  # nothing says which end comes first
    try:
        return content[len(mark) :].decode(MARKS.get(mark, encoding))
    except UnicodeDecodeError:
        return None


@given(made=contracts.flatmap(lambda one: st.tuples(st.just(one), st.lists(files([one], TEXT_FORMATS), max_size=4))))
@settings(FUZZ, max_examples=150)
def test_what_cannot_be_decoded_is_no_success(made: tuple[Contract, list[Made]]) -> None:
    """U+FFFD appears where it stands in the file, and for half of a surrogate pair; and nowhere else."""
    contract, landed = made
    with a_day(contract) as day:
        put(day.folder, *landed)
        found = day.read()
    for file in {file.name: file for file in landed if file.name[:3] in {"s0-", "s0/"}}.values():
        if file.name.endswith((".gz", ".zst")):
            continue
        uri = f"{DAY}/{file.name}"
        if found.ledger.row(by_predicate=pl.col("file_uri") == uri, named=True)["same_as"]:
            continue
        rows, letters = found.rows.filter(file_uri=uri), found.letters.filter(file_uri=uri)
        text = decoded(file.content, contract.get("encoding", "utf-8"))
        if text is None:
            assert (rows.height, letters["reason"].to_list()) == (0, [Reason.UNREADABLE_FILE])
        elif "\ufffd" not in text and not re.search(r"\\u[dD]", text):
            assert not rows["text"].str.contains("\ufffd", literal=True).any()


CELLS: Final = ["a", "1", ",", ",", '"', '"', '""', "\n", "\n", "\r\n", "\x00", "é😀", " ", '"x,y"', '"two\nlines"']
HEADERS: Final = {
    "text,id\n": ["text", "id"],
    '"id","te""xt",text\r\n': ["id", 'te"xt', "text"],
    "\n\ntext\n": ["text"],
}


@given(header=st.sampled_from(list(HEADERS)), cells=st.lists(st.sampled_from(CELLS)))
@settings(FUZZ, max_examples=200)
def test_csv_that_keeps_rfc_4180_is_counted_by_its_letter(header: str, cells: list[str]) -> None:
    body = "".join(cells)
    with a_day({"columns": {"text": "text"}}) as day:
        put(day.folder, Made("s0-1.csv", (header + body).encode()))
        found = day.read()
    check(found)
    strict = rfc_4180(body)
    if strict is None or ([""] in strict and '""' in body):
        return  # a strict reader does not tell a quoted nothing from a blank line, which is no record of ours
    names = HEADERS[header]
    whole = [tuple(record) for record in strict if len(record) == len(names) and record != [""]]
    assert found.ledger["records"].sum() == len([record for record in strict if record != [""]])
    assert found.letters.filter(reason=Reason.WRONG_FIELD_COUNT).height == found.ledger["records"].sum() - len(whole)
    # Of records that say the same in every field one stays.
    at = names.index("text")
    said = {(*record[:at], record[at].replace("\x00", ""), *record[at + 1 :]) for record in whole}
    assert sorted(found.rows["text"]) == sorted(record[at] for record in said)


# The life of a day: files come, change, are copied, renamed and deleted, and the day is read again

PLACES: Final = ["s0-0.csv", "s0-1.csv", "s0-2.csv", "s1-0.csv"]
CONTENTS: Final = [
    b"id,comment\n1,old\n",
    b"id,comment\n1,new\n2,other\n",
    b"id,comment\n2,more\n2,again\n,nobody\n",
    b"id,comment\n",
    b"",
    b"no table",
]


@dataclass(frozen=True)
class Step:
    """Something that happens to a file, and whether the day is read then."""

    act: str
    place: int
    other: int = 0
    """Number of the content that is landed, or of the place that a copy or the renamed file gets."""
    is_read: bool = True


steps = st.builds(
    Step,
    st.sampled_from(["land", "land", "copy", "rename", "delete", "touch"]),
    st.integers(0, len(PLACES) - 1),
    st.integers(0, len(CONTENTS) - 1),
    st.integers(0, 3).map(bool),
)


def take(step: Step, folder: Path) -> bool:
    """Do it; whether only the folder was tidied, so that no record came or was replaced."""
    path, target = folder / PLACES[step.place], folder / PLACES[step.other % len(PLACES)]
    if step.act == "land":
        path.write_bytes(CONTENTS[step.other])
        return False
    if not path.exists():
        return True
    if step.act == "touch":
        os.utime(path)
    elif step.act == "delete":
        path.unlink()
    else:
        is_tidy = not target.exists() and path.name[:2] == target.name[:2]
        if step.act == "copy":
            target.write_bytes(path.read_bytes())
        else:
            path.rename(target)
        return is_tidy
    return True


def check_nothing_waits(ledger: FileLedger) -> None:
    """A day that was just read is not one to be read again."""
    for entry in ledger.entries.values():
        assert not ledger.is_superfluous(entry)
        assert not ledger.has_lost_its_original(entry)


@given(life=st.lists(steps, min_size=2, max_size=7), dedupe=st.sampled_from(["last", "first", "newest"]))
@example(life=[Step("land", 0, 0), Step("delete", 0), Step("land", 1, 1)], dedupe="last")
@example(life=[Step("land", 0, 0), Step("copy", 0, 1), Step("land", 0, 2)], dedupe="last")
@example(life=[Step("land", 0, 0), Step("land", 3, 0), Step("delete", 0)], dedupe="last")
@example(life=[Step("land", 0, 4), Step("land", 1, 4)], dedupe="last")
@settings(FUZZ, max_examples=30)
def test_files_that_come_and_go_leave_a_day_that_adds_up(life: list[Step], dedupe: str) -> None:
    """Tidying a folder takes no row away, a read day does not wait, and a replay gives the same tables."""
    contract = {"columns": {"text": "comment", "source_record_id": "id"}, "dedupe": dedupe}
    with a_day(contract, contract) as day:
        ids: set[str] = set()
        is_tidy = True
        for step in life:
            is_tidy &= take(step, day.folder)
            if not step.is_read:
                continue
            found = day.read_and_store()
            check(found)
            check_nothing_waits(FileLedger.of(day.settings.lake()))
            check_same(found, day.read_and_store())
            if is_tidy:
                assert set(found.rows["feedback_id"]) == ids
            ids, is_tidy = set(found.rows["feedback_id"]), True


@given(made=days)
@settings(FUZZ, max_examples=5)
def test_the_asset_itself_materializes_whatever_lands(made: tuple[list[Contract], list[Made]]) -> None:
    sources, landed = made
    with tempfile.TemporaryDirectory() as root:
        project = make_project(Path(root), TritonResource(url="127.0.0.1:1", repository="none"))
        (project.root / "config" / "sources.yaml").write_text(sources_yaml(tuple(sources)))
        folder = project.root / "landing" / DAY.isoformat()
        put(folder, *landed)
        for file in landed:
            os.utime(folder / file.name, LONG_AGO)

        def read() -> Tables:
            assert materialized(project.run(DAY, *INGESTION)) == set(INGESTION)
            return Tables(*(project.rows(table, DAY) for table in INGESTION))

        found = read()
        check(found)
        check_same(found, read())
