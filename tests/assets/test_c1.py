"""What becomes of fifteen kinds of bad input: the promises of ingestion, each through the real asset.

The names and the bytes are those of a list of what hurts people elsewhere; `pytest -k c1` shows it in order. In every
case each record is a row or a dead letter, which `Day.read` holds. No server is needed.
"""

import csv
import io
import json
import logging
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
import yaml

from platform_assets.domain.raw_feedback import Flag, Reason
from platform_assets.waiting_days import waiting_days
from resources.landing_zone import LandedFile
from resources.triton import TritonResource
from tests.made_files import PACKED, parquet, workbook
from tests.project import Project, make_project, materialized
from tests.rfc4180 import rfc_4180

DAY = date(2026, 9, 1)
INGESTION = ("raw_feedback", "quarantined_feedback", "landed_files")
ID_AND_TEXT = {"source_record_id": "id", "text": "comment"}
EMOJI, REPLACEMENT = "\U0001f600", "\ufffd"

packed = pytest.mark.parametrize("packing", list(PACKED), ids=lambda suffix: suffix or "plain")


@dataclass
class Day:
    """A day's files, their sources, and what the asset made of them."""

    project: Project
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)

    def source(self, name: str, columns: dict[str, str], **contract: Any) -> None:
        """Declare a source, whose files are named after it."""
        self.sources[name] = {"files": [f"{name}.*", f"{name}-*"], "columns": columns, **contract}
        path = self.project.root / "config" / "sources.yaml"
        path.write_text(yaml.safe_dump({"sources": self.sources}, sort_keys=False))

    def land(self, name: str, content: bytes) -> LandedFile:
        """Land a file, packed as its name says."""
        suffix = Path(name).suffix
        return self.project.land(DAY, name, PACKED.get(suffix, bytes)(content))

    def read(self) -> dg.ExecuteInProcessResult:
        done = self.project.run(DAY, *INGESTION)
        assert materialized(done) == set(INGESTION)
        kept = pl.concat([self.rows().select("file_uri"), self.letters().select("file_uri")])
        counts = {uri: records for uri, records in self.ledger().select("file_uri", "records").iter_rows() if records}
        assert counts == dict(kept.group_by("file_uri").len().iter_rows())
        assert self.rows()["feedback_id"].is_unique().all()
        return done

    def rows(self, source: str | None = None) -> pl.DataFrame:
        return self._table("raw_feedback", source)

    def letters(self, source: str | None = None) -> pl.DataFrame:
        return self._table("quarantined_feedback", source)

    def ledger(self, source: str | None = None) -> pl.DataFrame:
        return self._table("landed_files", source)

    def texts(self, source: str | None = None) -> list[str]:
        return self.rows(source)["text"].to_list()

    def reasons(self, source: str | None = None) -> list[tuple[int, str, str]]:
        """Line, raw text and reason of each dead letter."""
        return self.letters(source).select("line_no", "raw", "reason").rows()

    def warnings(self, done: dg.ExecuteInProcessResult) -> set[str]:
        """What the asset warned of in a run's log."""
        logged = self.project.instance.all_logs(done.run_id)
        return {entry.user_message for entry in logged if entry.level == logging.WARNING}

    def waits(self) -> bool:
        """Whether the day, if its run came to the end, would be run again."""
        instance = self.project.instance
        instance.report_runless_asset_event(dg.AssetMaterialization("daily_summary", partition=DAY.isoformat()))
        return bool(waiting_days(self.project.settings, instance).content)

    def _table(self, name: str, source: str | None) -> pl.DataFrame:
        rows = self.project.rows(name, DAY)
        of_source = rows if source is None else rows.filter(source=source)
        return of_source.sort("file_uri", "line_no", maintain_order=True) if "line_no" in rows.columns else of_source


@pytest.fixture
def day(tmp_path: Path) -> Day:
    project = make_project(tmp_path, TritonResource(url="127.0.0.1:1", repository="none"))
    project.edit("platform", lambda text: text.replace("settle_s: 10 ", "settle_s: 0 "))
    return Day(project)


def jsonl(*records: dict[str, Any]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def table(rows: list[list[str]], delimiter: str = ",") -> bytes:
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter).writerows(rows)
    return written.getvalue().encode()


@packed
def test_c1_01_ndjson_that_starts_with_a_byte_order_mark(day: Day, packing: str) -> None:
    """Stripped; the first key is clean."""
    day.source("bot", ID_AND_TEXT)
    records = jsonl({"id": "1", "comment": "hi"}, {"id": "2", "comment": "ho"})
    day.land(f"bot.ndjson{packing}", b"\xef\xbb\xbf" + records)
    day.read()
    assert day.rows().select("source_record_id", "text", "metadata").rows() == [("1", "hi", "{}"), ("2", "ho", "{}")]


@packed
def test_c1_02_csv_in_utf_16le_with_its_byte_order_mark_is_decoded(day: Day, packing: str) -> None:
    """The mark goes before what the source declares."""
    content = b"\xff\xfe" + f"id,comment\r\n1,größer {EMOJI}\r\n2,“ok”\r\n".encode("utf-16-le")
    for name in ("utf-8", "cp1252", "utf-16"):
        day.source(name.replace("-", ""), ID_AND_TEXT, encoding=name)
    for name in day.sources:
        day.land(f"{name}.csv{packing}", content)
    day.read()
    for name in day.sources:
        assert day.rows(name).select("source_record_id", "text", "line_no").rows() == [
            ("1", f"größer {EMOJI}", 2),
            ("2", "“ok”", 3),
        ]


def test_c1_02_csv_in_utf_16le_that_cannot_be_decoded_is_rejected(day: Day) -> None:
    """Never mojibake: without a mark it is read as declared, and cut within a character it names the encoding."""
    content = "id,comment\r\n1,größer\r\n".encode("utf-16-le")
    day.source("declared", ID_AND_TEXT, encoding="utf-16-le")
    day.land("declared.csv", content)
    day.source("undeclared", ID_AND_TEXT)
    day.land("undeclared.csv", content)
    day.source("cut", ID_AND_TEXT)
    day.land("cut.csv", b"\xff\xfe" + content[:-1])
    day.read()
    assert day.texts() == ["größer"]
    assert day.letters().select("source", "line_no", "raw", "reason", "detail").rows() == [
        ("cut", 0, "", Reason.UNREADABLE_FILE, "byte 44 is not utf-16-le: set the source's encoding"),
        ("undeclared", 0, "", Reason.UNREADABLE_FILE, "byte 32 is not utf-8: set the source's encoding"),
    ]


def test_c1_02_csv_in_utf_16_without_the_mark_that_its_source_declares(day: Day) -> None:
    """`utf-16` does not say which end comes first, so only a mark can."""
    day.source("unmarked", ID_AND_TEXT, encoding="utf-16")
    day.land("unmarked.csv", "id,comment\r\n1,x\r\n".encode("utf-16-le"))
    day.source("other", ID_AND_TEXT)
    day.land("other.csv", b"id,comment\n1,fine\n")
    day.read()
    assert day.texts() == ["fine"], "one file's encoding is no reason to fail the day"
    assert day.reasons() == [(0, "", Reason.UNREADABLE_FILE)]


@packed
def test_c1_03_no_byte_order_mark_and_bytes_of_cp1252(day: Day, packing: str) -> None:
    """Decoded only if that encoding is configured, else the file is quarantined; U+FFFD is not success."""
    content = b"id,comment\n1,fine\n2,\x93\xe9\x85\x94\n"
    day.source("configured", ID_AND_TEXT, encoding="cp1252")
    day.land(f"configured.csv{packing}", content)
    day.source("unconfigured", ID_AND_TEXT)
    day.land(f"unconfigured.csv{packing}", content)
    day.land("unconfigured-2.jsonl", b'{"id": 1, "comment": "\x93\xe9\x85\x94"}\n')
    day.land("unconfigured-3.json", b'[{"id": 1, "comment": "\x93\xe9\x85\x94"}]\n')
    day.read()
    assert day.texts() == ["fine", "“é…”"]
    assert day.reasons("unconfigured") == [(0, "", Reason.UNREADABLE_FILE)] * 3
    assert day.letters("unconfigured")["detail"].str.contains("is not utf-8: set the source's encoding").all()


def test_c1_03_text_that_another_program_has_spoilt_is_flagged(day: Day) -> None:
    """U+FFFD that stands in the file: nothing can be decoded any more, and it is not passed over in silence."""
    day.source("shop", ID_AND_TEXT)
    day.land("shop.csv", f"id,comment\n1,caf{REPLACEMENT}\n2,tea\n".encode())
    day.read()
    assert day.rows().select("text", "flags").rows() == [
        (f"caf{REPLACEMENT}", [Flag.REPLACEMENT_CHARACTER, Flag.NO_TIME]),
        ("tea", [Flag.NO_TIME]),
    ]


def test_c1_04_a_nul_byte_inside_a_quoted_comment(day: Day) -> None:
    """The row is kept, the NUL removed, and flagged."""
    day.source("shop", ID_AND_TEXT)
    day.land("shop.csv", b'id,comment\n1,"a, \x00b\nc"\n2,d\n')
    day.land("shop-2.jsonl", rb'{"id": 3, "comment": "e\u0000f"}')
    day.land("shop-3.parquet", parquet({"id": [4], "comment": ["g\x00\x00h"]}))
    day.read()
    assert day.rows().sort("source_record_id").select("text", "flags").rows() == [
        ("a, b\nc", [Flag.NUL_REMOVED, Flag.NO_TIME]),
        ("d", [Flag.NO_TIME]),
        ("ef", [Flag.NUL_REMOVED, Flag.NO_TIME]),
        ("gh", [Flag.NUL_REMOVED, Flag.NO_TIME]),
    ]


@packed
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_c1_05_quoted_line_feeds_by_the_thousand(day: Day, packing: str, end: str) -> None:
    """Counts equal a strict RFC 4180 parser, and line numbers are those of the file."""
    body = "".join(f'{number},"{f"line{end}" * (number % 7)}, ""end"""{end}' for number in range(3_000))
    body += f'3000,"{end * 5_000}"{end}3001,x{end}'
    day.source("shop", ID_AND_TEXT)
    day.land(f"shop.csv{packing}", f"id,comment{end}{body}".encode())
    day.read()
    strict = rfc_4180(body)
    assert strict is not None
    assert day.rows().select("source_record_id", "text").rows() == [tuple(record) for record in strict]
    assert day.letters().is_empty()
    assert day.rows()["line_no"].to_list()[-1] == body.count("\n") + 1


def test_c1_05_20479_unquoted_rows_and_then_a_quoted_comma(day: Day) -> None:
    """The comma stays in its field."""
    body = "".join(f"text {number},1\n" for number in range(20_479)) + '"x,y",1\n'
    day.source("shop", {"text": "comment", "rating": "stars"})
    day.land("shop.csv", f"comment,stars\n{body}".encode())
    day.read()
    strict = rfc_4180(body)
    assert strict is not None
    assert day.texts() == [comment for comment, _ in strict]
    assert day.rows().row(-1, named=True)["text"] == "x,y"


def test_c1_06_lines_c0_v0_and_a_semicolon_b(day: Day) -> None:
    """One declared column, two rows; never zero. With the other delimiter declared, a row and a dead letter."""
    day.source("one_column", {"text": "c0"})
    day.land("one_column.csv", b"c0\nv0\na;b\n")
    day.source("semicolons", {"text": "c0"}, delimiter=";")
    day.land("semicolons.csv", b"c0\nv0\na;b\n")
    day.read()
    assert day.texts("one_column") == ["v0", "a;b"]
    assert day.texts("semicolons") == ["v0"]
    assert day.reasons() == [(3, "a;b", Reason.WRONG_FIELD_COUNT)]


@packed
def test_c1_07_rows_of_2_and_4_fields_in_a_three_column_file(day: Day, packing: str) -> None:
    """Both are quarantined with line number and raw text; the others load."""
    day.source("shop", {**ID_AND_TEXT, "rating": "stars"})
    day.land(
        f"shop.csv{packing}", b'id,comment,stars\r\n1,"a\r\nb",5\r\n2,short\r\n\r\n3,"to,o",long,1\r\n4,fine,4\r\n'
    )
    day.read()
    assert day.rows().select("source_record_id", "line_no").rows() == [("1", 2), ("4", 7)]
    assert day.reasons() == [
        (4, "2,short", Reason.WRONG_FIELD_COUNT),
        (6, '3,"to,o",long,1', Reason.WRONG_FIELD_COUNT),
    ]
    assert day.letters()["detail"].to_list() == ["3 fields declared, 2 found", "3 fields declared, 4 found"]


def test_c1_08_jsonl_where_rating_first_appears_in_record_101(day: Day) -> None:
    """The column is kept, 100 nulls."""
    day.source("app", {**ID_AND_TEXT, "rating": "rating"})
    records = [{"id": number, "comment": f"text {number}"} for number in range(1, 101)]
    day.land("app.jsonl", jsonl(*records, {"id": 101, "comment": "text 101", "rating": 4}))
    day.read()
    assert day.rows()["rating"].to_list() == [None] * 100 + [4]


def test_c1_09_ids_of_twenty_digits_and_with_leading_zeros(day: Day) -> None:
    """Exact strings, from every format."""
    ids = ["12345678901234567890", "9223372036854775808", "00123"]
    rows = [["id", "comment"], *([one, "x"] for one in ids)]
    records = [f'{{"id": {one}, "comment": "x"}}' for one in (*ids[:2], '"00123"')]
    files = {
        "csv": table(rows),
        "tsv": table(rows, "\t"),
        "jsonl": "\n".join(records).encode(),
        "json": f"[{', '.join(records)}]".encode(),
        "xlsx": workbook(rows),
        "parquet": parquet({"id": ids, "comment": ["x"] * 3}),
    }
    for name, content in files.items():
        day.source(name, ID_AND_TEXT)
        day.land(f"{name}.{name}", content)
    day.source("unsigned", ID_AND_TEXT)
    day.land("unsigned.parquet", parquet({"id": [2**63, 2**64 - 1], "comment": ["x"] * 2}, id=pl.UInt64))
    day.read()
    assert {name: sorted(day.rows(name)["source_record_id"]) for name in files} == dict.fromkeys(files, sorted(ids))
    assert day.rows("unsigned")["source_record_id"].to_list() == ["9223372036854775808", "18446744073709551615"]


def test_c1_09_ids_that_a_spreadsheet_has_cut_are_no_strings_of_digits(day: Day) -> None:
    """A number cell keeps 15 digits: the id of the record is lost, the record is not."""
    day.source("sheet", ID_AND_TEXT)
    rows: list[list[Any]] = [[123456789012345, "x"], [1234567890123456789, "y"], ["7", "z"]]
    day.land("sheet.xlsx", workbook([["id", "comment"], *rows]))
    day.read()
    assert day.rows()["source_record_id"].to_list() == ["123456789012345", "7"]
    ((line_no, raw, reason),) = day.reasons()
    assert (line_no, reason, json.loads(raw)["comment"]) == (3, Reason.UNRECOVERABLE_ID, "y")


def test_c1_10_a_key_that_stands_twice(day: Day) -> None:
    """Quarantined."""
    day.source("app", ID_AND_TEXT)
    day.land("app-1.jsonl", b'{"id":1,"comment":"a"}\n{"id":1,"id":2,"comment":"b"}\n{"id":3,"comment":"c"}\n')
    day.land("app-2.json", b'[{"id":4,"comment":"d"},\n{"id":1,"id":2}]')
    day.read()
    assert day.texts() == ["a", "c", "d"]
    assert day.reasons() == [
        (2, '{"id":1,"id":2,"comment":"b"}', Reason.MALFORMED_RECORD),
        (2, '{"id":1,"id":2}', Reason.MALFORMED_RECORD),
    ]


def test_c1_10_keys_that_differ_in_case_only(day: Day) -> None:
    """Mapped deterministically: names are compared exactly, and the other one is not lost."""
    day.source("upper", {"text": "Name"})
    day.source("lower", {"text": "name"})
    for name in day.sources:
        day.land(f"{name}-1.jsonl", b'{"Name":"a","name":"b"}\n')
        day.land(f"{name}-2.csv", b"name,Name\nb2,a2\n")
    day.read()
    assert day.rows("upper").select("text", "metadata").rows() == [("a", '{"name":"b"}'), ("a2", '{"name":"b2"}')]
    assert day.rows("lower").select("text", "metadata").rows() == [("b", '{"Name":"a"}'), ("b2", '{"Name":"a2"}')]


def test_c1_10_two_records_of_one_id_and_different_text(day: Day) -> None:
    """Resolved by the source's rule, both traceable: the dead letter holds one and names the place of the other."""
    lines = [
        "id,comment,at",
        "A1,older,2026-08-02T00:00:00Z",
        "A1,newest,2026-08-03T00:00:00Z",
        "A1,last,2026-08-01T00:00:00Z",
    ]
    winners = {"first": 2, "last": 4, "newest": 3}
    for rule in winners:
        day.source(rule, {**ID_AND_TEXT, "created_at": "at"}, dedupe=rule)
        day.land(f"{rule}.csv", "\n".join(lines).encode())
    day.read()
    for rule, line_no in winners.items():
        kept = day.rows(rule).select("source_record_id", "line_no", "text").rows()
        assert kept == [("A1", line_no, lines[line_no - 1].split(",")[1])]
        others = [other for other in (2, 3, 4) if other != line_no]
        assert day.reasons(rule) == [(other, lines[other - 1], Reason.SUPERSEDED) for other in others]
        assert day.letters(rule)["detail"].str.contains(f"{DAY}/{rule}.csv line {line_no}", literal=True).all()


@pytest.mark.parametrize("end", ["\n", ""], ids=["lines", "one line"])
def test_c1_10_two_records_of_one_id_in_one_json_array(day: Day, end: str) -> None:
    """An array that is not broken into lines, as machines write it, is resolved like any other file."""
    pairs = [("A1", "a"), ("B2", "b"), ("A1", "c")]
    records = [f'{{"id":"{identity}","comment":"{text}"}}' for identity, text in pairs]
    day.source("app", ID_AND_TEXT)
    day.land("app.json", f"[{f',{end}'.join(records)}]".encode())
    day.read()
    assert sorted(day.texts()) == ["b", "c"]
    assert day.letters().select("raw", "reason").rows() == [(records[0], Reason.SUPERSEDED)]


def test_c1_10_two_records_of_one_id_in_two_files(day: Day) -> None:
    """Of files that landed one after the other, by rule, the later or the earlier one counts."""
    for rule in ("first", "last"):
        day.source(rule, ID_AND_TEXT, dedupe=rule)
        day.land(f"{rule}-b.jsonl", jsonl({"id": "A1", "comment": "landed first"}))
    day.read()
    for rule in ("first", "last"):
        day.land(f"{rule}-a.csv", b"id,comment\nA1,landed last\n")
    day.read()
    assert (day.texts("first"), day.texts("last")) == (["landed first"], ["landed last"])
    assert day.letters().sort("source").select("source", "raw", "reason", "detail").rows() == [
        (
            "first",
            "A1,landed last",
            Reason.SUPERSEDED,
            f"the same record id stands in {DAY}/first-b.jsonl line 1, which is kept",
        ),
        (
            "last",
            '{"id": "A1", "comment": "landed first"}',
            Reason.SUPERSEDED,
            f"the same record id stands in {DAY}/last-a.csv line 2, which is kept",
        ),
    ]


def test_c1_11_json_escape_of_a_lone_surrogate(day: Day) -> None:
    """U+FFFD plus a flag, nothing crashes; the pair is U+1F600."""
    escaped = [
        rb'{"id":1,"comment":"\ud83d"}',
        rb'{"id":2,"comment":"\ud83d\ude00"}',
        rb'{"id":3,"comment":"\ude00\ud83d."}',
    ]
    day.source("lines", ID_AND_TEXT)
    day.land("lines.jsonl", b"\n".join(escaped))
    day.source("array", ID_AND_TEXT)
    day.land("array.json", b"[" + b",\n".join(escaped) + b"]")
    day.read()
    for source in day.sources:
        assert day.rows(source).select("text", "flags").rows() == [
            (REPLACEMENT, [Flag.REPLACEMENT_CHARACTER, Flag.NO_TIME]),
            (EMOJI, [Flag.NO_TIME]),
            (f"{REPLACEMENT * 2}.", [Flag.REPLACEMENT_CHARACTER, Flag.NO_TIME]),
        ]


NOT_IN_BERLIN = "2024-03-31T02:30:00"
TWICE_IN_BERLIN = "2024-10-27T02:30:00"
NAIVE = "2024-06-01T10:00:00"
WITH_OFFSET = "2024-03-31T02:30:00+02:00"
SLASHED = "31/03/2024 02:30"
EPOCH = "1711848600"
TIMES = [NOT_IN_BERLIN, TWICE_IN_BERLIN, NAIVE, WITH_OFFSET, SLASHED, EPOCH, ""]
BERLIN = {"time_zone": "Europe/Berlin"}
SLASHES = {"time_format": "%d/%m/%Y %H:%M"}


@pytest.mark.parametrize(
    ("contract", "moments"),
    [
        ({}, {WITH_OFFSET: "2024-03-31 00:30:00"}),
        (BERLIN, {WITH_OFFSET: "2024-03-31 00:30:00", NAIVE: "2024-06-01 08:00:00"}),
        (
            {"time_zone": "UTC"},
            {
                NOT_IN_BERLIN: "2024-03-31 02:30:00",
                TWICE_IN_BERLIN: "2024-10-27 02:30:00",
                NAIVE: "2024-06-01 10:00:00",
                WITH_OFFSET: "2024-03-31 00:30:00",
            },
        ),
        ({"epoch_unit": "s"}, {WITH_OFFSET: "2024-03-31 00:30:00", EPOCH: "2024-03-31 01:30:00"}),
        (
            {**BERLIN, "epoch_unit": "ms"},
            {WITH_OFFSET: "2024-03-31 00:30:00", NAIVE: "2024-06-01 08:00:00", EPOCH: "1970-01-20 19:30:48.600"},
        ),
        ({**BERLIN, **SLASHES}, {}),
        ({"time_zone": "Africa/Lagos", **SLASHES}, {SLASHED: "2024-03-31 01:30:00"}),
        (SLASHES, {}),
    ],
    ids=["no zone", "Berlin", "UTC", "epoch s", "Berlin, epoch ms", "Berlin, slashes", "Lagos, slashes", "slashes"],
)
def test_c1_12_times_of_many_kinds_in_one_column(day: Day, contract: dict[str, Any], moments: dict[str, str]) -> None:
    """Offsets to UTC; epoch only if its unit is declared; naive needs a source time zone; what is no moment, or two, is
    quarantined, never null. A record that names no time has that of its arrival, and a flag."""
    day.source("shop", {**ID_AND_TEXT, "created_at": "at"}, **contract)
    rows = [f"{number},{time or 'none'},{time}" for number, time in enumerate(TIMES)]
    day.land("shop.csv", "\n".join(["id,comment,at", *rows]).encode())
    day.read()
    given = day.rows().filter(pl.col("text") != "none")
    found = dict(zip(given["text"], given["created_at"].dt.replace_time_zone(None), strict=True))
    assert found == {time: datetime.fromisoformat(moment) for time, moment in moments.items()}
    assert given["flags"].list.len().sum() == 0
    assert day.reasons() == [
        (line_no, row, Reason.BAD_TIME)
        for line_no, (row, time) in enumerate(zip(rows, TIMES, strict=True), start=2)
        if time and time not in moments
    ]
    without = day.rows().filter(text="none").row(0, named=True)
    assert (without["created_at"], without["flags"]) == (without["received_at"], [Flag.NO_TIME])


def test_c1_12_times_beyond_the_calendar(day: Day) -> None:
    """A time of no year from 1 to 9999, in UTC, is none that anybody could read again."""
    beyond = [
        "9999-12-31T23:59:59-12:00",
        "0001-01-01T00:00:00+14:00",
        "+12345-01-01T00:00:00Z",
        "-0044-03-15T00:00:00Z",
    ]
    day.source("shop", {**ID_AND_TEXT, "created_at": "at"})
    day.land("shop.csv", "\n".join(["id,comment,at", *(f"{time},x,{time}" for time in beyond)]).encode())
    day.read()
    assert day.letters()["reason"].to_list() == [Reason.BAD_TIME] * len(beyond)


NOTHING = {
    "zero_bytes": dict.fromkeys(["csv", "tsv", "jsonl", "json", "parquet", "xlsx"], b""),
    "header_only": {
        "csv": b"id,comment\n",
        "tsv": b"id\tcomment",
        "json": b"[]",
        "parquet": parquet({"id": [], "comment": []}),
        "xlsx": workbook([["id", "comment"]]),
    },
    "a_lone_0a": dict.fromkeys(["csv", "tsv", "jsonl", "json"], b"\n"),
}


@pytest.mark.parametrize("shape", NOTHING)
def test_c1_13_zero_bytes_header_only_a_lone_0a(day: Day, shape: str) -> None:
    """Zero rows, an "empty source" warning, the ledger advances: every format, packed and not."""
    for suffix, content in NOTHING[shape].items():
        for packing in PACKED:
            name = f"{suffix}{packing.replace('.', '_')}"
            day.source(name, ID_AND_TEXT)
            day.land(f"{name}.{suffix}{packing}", content)
    done = day.read()
    ledger = day.ledger()
    assert ledger.height == len(day.sources)
    assert ledger.select("records", "problem").unique().rows() == [(0, "the file holds no records")]
    assert (day.rows().height, day.letters().height) == (0, 0)
    assert day.warnings(done) == {f"{uri}: the file holds no records" for uri in ledger["file_uri"]}
    assert not day.waits()


def test_c1_13_two_empty_files_of_one_source(day: Day) -> None:
    """Neither stands for the other, and no run looks for the records that both lack."""
    day.source("shop", ID_AND_TEXT)
    day.land("shop-1.csv", b"")
    day.land("shop-2.csv", b"")
    day.read()
    assert not day.waits()
    assert day.ledger()["records"].to_list() == [0, 0]


@packed
def test_c1_14_a_first_line_sep_semicolon(day: Day, packing: str) -> None:
    """The directive is consumed; 4,5 is 4.5 under the configured locale; the id is quarantined as unrecoverable."""
    day.source("excel", {**ID_AND_TEXT, "rating": "stars"}, decimal_mark=",")
    day.land(f"excel.csv{packing}", b"sep=;\r\nid;comment;stars\r\n1,23457E+15;lost;4,5\r\n7;kept, too;4,5\r\n")
    day.read()
    assert day.rows().select("source_record_id", "text", "rating", "line_no").rows() == [("7", "kept, too", 4.5, 4)]
    assert day.reasons() == [(3, "1,23457E+15;lost;4,5", Reason.UNRECOVERABLE_ID)]


def test_c1_14_a_decimal_comma_that_is_not_configured(day: Day) -> None:
    day.source("excel", {**ID_AND_TEXT, "rating": "stars"})
    day.land("excel.csv", b"sep=;\r\nid;comment;stars\r\n7;x;4,5\r\n")
    day.read()
    assert day.reasons() == [(3, "7;x;4,5", Reason.BAD_RATING)]


@packed
def test_c1_15_parquet_whose_second_file_adds_a_column_and_turns_the_id_into_text(day: Day, packing: str) -> None:
    """Aligned to the contract; the extra column is reported in the metadata of its rows."""
    day.source("app", ID_AND_TEXT)
    day.land(f"app-1.parquet{packing}", parquet({"id": [1, 2], "comment": ["one", "two"]}))
    second: dict[str, list[Any]] = {"id": ["2", "x3"], "comment": ["again", "three"], "device": ["tv", None]}
    day.land(f"app-2.parquet{packing}", parquet(second))
    day.read()
    assert day.rows().select("source_record_id", "text", "metadata").rows() == [
        ("1", "one", "{}"),
        ("2", "again", '{"device":"tv"}'),
        ("x3", "three", '{"device":null}'),
    ]
    assert day.letters().select("line_no", "reason").rows() == [(2, Reason.SUPERSEDED)], "2 and the text 2 are one id"


def test_c1_15_parquet_that_lacks_its_footer(day: Day) -> None:
    """Retried as incomplete, then quarantined, beside the files that are whole; once it is there as a whole, read."""
    whole = parquet({"id": [3], "comment": ["three"]})
    day.source("app", ID_AND_TEXT)
    day.land("app-1.parquet", parquet({"id": [1], "comment": ["one"]}))
    day.land("app-3.parquet", whole[:-8])
    done = day.read()
    assert len([event for event in done.all_events if event.event_type_value == "STEP_UP_FOR_RETRY"]) == 2
    assert day.texts() == ["one"]
    assert day.reasons() == [(0, "", Reason.INCOMPLETE_FILE)]
    assert not day.waits(), "it is not looked at for ever"
    day.land("app-3.parquet", whole)
    assert day.waits()
    day.read()
    assert (day.texts(), day.reasons()) == (["one", "three"], [])
