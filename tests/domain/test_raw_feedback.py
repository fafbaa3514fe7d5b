import hashlib
from datetime import UTC, date, datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from platform_assets.domain.raw_feedback import (
    FILE_URI,
    RECEIVED_AT,
    Accepted,
    Flag,
    Reason,
    accept,
    content_hash,
    dead_letters,
    feedback_id,
    sendable,
    superseded,
)
from platform_assets.domain.sources import Dedupe, Source
from platform_assets.domain.tables import QUARANTINED_FEEDBACK, RAW_FEEDBACK

DAY = date(2026, 9, 1)
SEEN = datetime(2026, 9, 1, 12, tzinfo=UTC)
FULL = {"text": "body", "source_record_id": "id", "created_at": "when", "rating": "stars"}

Record = dict[str, str | None]


def records(source: Source, rows: list[Record], name: str = "a.csv") -> pl.DataFrame:
    columns = list(source.columns.mapped().values())
    data: dict[str, list[Any]] = {
        "#line_no": list(range(2, len(rows) + 2)),
        FILE_URI: [f"{DAY}/{name}"] * len(rows),
        RECEIVED_AT: [SEEN] * len(rows),
        "#extra": ['{"more": "1"}'] * len(rows),
        **{column: [row.get(column) for row in rows] for column in columns},
    }
    texts = dict.fromkeys([FILE_URI, "#extra", *columns], pl.String)
    times = {RECEIVED_AT: pl.Datetime("us", "UTC")}
    return pl.DataFrame(data, schema_overrides={"#line_no": pl.Int64, **texts, **times})


def accepted(rows: list[Record], columns: dict[str, str] = FULL, **contract: Any) -> Accepted:
    source = Source(columns=columns, **contract)
    return accept(records(source, rows), source, "shop", DAY)


def one(**fields: str | None) -> Record:
    return {"body": "fine", "id": "7", **fields}


def settled(*parts: Accepted, dedupe: Dedupe = "last") -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows that stay, and the losers."""
    rows = pl.concat([part.loaded for part in parts])
    losers = superseded(rows, {"shop": dedupe})
    return rows.join(losers, on=["file_uri", "line_no"], how="anti", maintain_order="left"), losers


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def id_of(source: str, key: str) -> str:
    return pl.DataFrame({"key": [key]}).select(feedback_id(source, "key")).item()


def test_a_record_becomes_a_row_of_the_contract() -> None:
    whole = accepted(
        [{"who": " ann ", "lang": "de-DE", "via": "", **one(when="2026-09-01T10:00:00Z", stars=" 4 ")}],
        columns={**FULL, "author_id": "who", "language": "lang", "channel": "via"},
        channel="web",
    )
    assert whole.refused.is_empty()
    assert whole.loaded.row(0, named=True) == {
        "feedback_id": sha256("shop\x007")[:32],
        "source": "shop",
        "source_record_id": "7",
        "text": "fine",
        "created_at": datetime(2026, 9, 1, 10, tzinfo=UTC),
        "received_at": SEEN,
        "partition_date": DAY,
        "rating": 4.0,
        "author_id": "ann",
        "channel": "web",
        "language": "de-DE",
        "metadata": '{"more": "1"}',
        "content_hash": sha256("fine"),
        "file_uri": "2026-09-01/a.csv",
        "line_no": 2,
        "flags": [],
    }


@pytest.mark.parametrize(
    ("record", "contract", "reason", "says"),
    [
        (one(id=None), {}, Reason.MISSING_ID, "no id"),
        (one(id="  "), {}, Reason.MISSING_ID, "no id"),
        (one(id="1,23457E+15"), {}, Reason.UNRECOVERABLE_ID, "1,23457E+15 lost digits"),
        (one(id="1.23457e15"), {}, Reason.UNRECOVERABLE_ID, "export ids as text"),
        (one(id="1E+15"), {}, Reason.UNRECOVERABLE_ID, "1E+15"),
        (one(when="31/03/2024 02:30"), {"time_zone": "UTC"}, Reason.BAD_TIME, "31/03/2024 02:30 is no moment"),
        (one(when="2024-06-01T10:00:00"), {}, Reason.BAD_TIME, "none, so an offset is needed"),
        (one(when="1711848600"), {"time_zone": "UTC"}, Reason.BAD_TIME, "1711848600"),
        (one(when="2026-02-30T10:00:00Z"), {}, Reason.BAD_TIME, "2026-02-30"),
        (one(stars="7"), {}, Reason.BAD_RATING, "7 is no rating from 1"),
        (one(stars="0"), {}, Reason.BAD_RATING, "0 is no rating"),
        (one(stars="five"), {}, Reason.BAD_RATING, "five is no rating"),
        (one(stars="inf"), {}, Reason.BAD_RATING, "inf is no rating"),
        (one(stars="4,5"), {}, Reason.BAD_RATING, "4,5 is no rating"),
    ],
)
def test_a_breach_becomes_a_dead_letter_with_its_reason(
    record: Record, contract: dict[str, Any], reason: Reason, says: str
) -> None:
    whole = accepted([one(), record], **contract)
    assert whole.loaded["source_record_id"].to_list() == ["7"]
    letter = whole.refused.row(0, named=True)
    assert (letter["reason"], letter["line_no"], letter["position"]) == (reason.value, 3, 1)
    assert says in letter["detail"]
    assert (letter["file_uri"], letter["received_at"]) == ("2026-09-01/a.csv", SEEN)


def test_the_first_breach_is_the_one_that_counts() -> None:
    whole = accepted([one(id="", when="never", stars="9"), one(when="never", stars="9")])
    assert whole.refused["reason"].to_list() == [Reason.MISSING_ID.value, Reason.BAD_TIME.value]


@pytest.mark.parametrize("identity", ["00123", "12345678901234567890", "9223372036854775808", "1E15", "A-1.5e3", "٣"])
def test_ids_stay_the_strings_that_they_are(identity: str) -> None:
    row = accepted([one(id=identity)]).loaded.row(0, named=True)
    assert row["source_record_id"] == identity
    assert row["feedback_id"] == id_of("shop", identity)


@pytest.mark.parametrize(
    ("given", "zone", "utc"),
    [
        ("2024-03-31T02:30:00", "Europe/Berlin", None),
        ("2024-10-27T02:30:00", "Europe/Berlin", None),
        ("2024-03-31T02:30:00+02:00", "Europe/Berlin", "2024-03-31 00:30"),
        ("2024-03-31T02:30:00+02:00", None, "2024-03-31 00:30"),
        ("2024-06-01T10:00:00.5-0330", None, "2024-06-01 13:30"),
        ("2024-06-01 10:00:00+02", None, "2024-06-01 08:00"),
        ("2024-06-01 10:00+02:00", None, "2024-06-01 08:00"),
        ("2024-06-01T10:00Z", None, "2024-06-01 10:00"),
        ("2024-06-01 10:00", "Europe/Berlin", "2024-06-01 08:00"),
        ("2024-12-01T10:00:00", "Europe/Berlin", "2024-12-01 09:00"),
        ("2024-12-01T10:00:00", None, None),
        ("2024-06-01", "Europe/Berlin", "2024-05-31 22:00"),
        ("2024-06-01", None, None),
        ("2024-13-01", "Europe/Berlin", None),
    ],
)
def test_times_become_utc_or_are_refused(given: str, zone: str | None, utc: str | None) -> None:
    whole = accepted([one(when=given)], time_zone=zone)
    if utc is None:
        assert whole.refused["reason"].to_list() == [Reason.BAD_TIME.value]
    else:
        assert f"{whole.loaded['created_at'][0]:%Y-%m-%d %H:%M}" == utc


@pytest.mark.parametrize(
    ("form", "given", "zone", "utc"),
    [
        ("%d/%m/%Y %H:%M", "31/03/2024 12:30", "Europe/Berlin", "2024-03-31 10:30"),
        ("%d/%m/%Y %H:%M", "31/03/2024 02:30", "Europe/Berlin", None),
        ("%d/%m/%Y %H:%M", "2024-03-31T12:30:00Z", "Europe/Berlin", None),
        ("%Y-%m-%d", "2024-06-01", "UTC", "2024-06-01 00:00"),
        ("%d.%m.%Y %H:%M %z", "31.03.2024 02:30 +0200", None, "2024-03-31 00:30"),
        ("%s", "1711848600", None, "2024-03-31 01:30"),
        ("%s", "1711848600", "Europe/Berlin", "2024-03-31 01:30"),
        ("%Y-%m-%d %H:%M%:z", "2024-06-01 10:00+02:00", "Europe/Berlin", "2024-06-01 08:00"),
        ("%Y-%m-%d %H:%M%#z", "2024-06-01 10:00+02", None, "2024-06-01 08:00"),
        ("%+", "2024-06-01T10:00:00+02:00", None, "2024-06-01 08:00"),
    ],
)
def test_a_declared_format_is_the_only_one(form: str, given: str, zone: str | None, utc: str | None) -> None:
    whole = accepted([one(when=given)], time_zone=zone, time_format=form)
    found = [f"{moment:%Y-%m-%d %H:%M}" for moment in whole.loaded["created_at"]]
    assert found == ([] if utc is None else [utc])


@pytest.mark.parametrize(
    ("given", "mark", "low_high", "rating"),
    [
        ("4,5", ",", (1, 5), 4.5),
        ("4.5", ".", (1, 5), 4.5),
        ("10", ".", (0, 10), 10.0),
        ("1", ".", (1, 5), 1.0),
        ("", ".", (1, 5), None),
        ("NaN", ".", (1, 5), None),
        (" nan ", ",", (1, 5), None),
    ],
)
def test_ratings(given: str, mark: str, low_high: tuple[float, float], rating: float | None) -> None:
    whole = accepted([one(stars=given)], decimal_mark=mark, rating_range=low_high)
    assert whole.loaded["rating"].to_list() == [rating]


@pytest.mark.parametrize(
    ("fields", "flags", "text"),
    [
        ({"body": "a\x00b", "when": "2026-09-01T10:00Z"}, [Flag.NUL_REMOVED], "ab"),
        ({"body": "caf\ufffd", "when": "2026-09-01T10:00Z"}, [Flag.REPLACEMENT_CHARACTER], "caf\ufffd"),
        ({"body": None, "when": "2026-09-01T10:00Z"}, [Flag.NO_TEXT], ""),
        ({"body": "   ", "when": "2026-09-01T10:00Z"}, [Flag.NO_TEXT], "   "),
        ({"body": "\u200b\ufeff", "when": "2026-09-01T10:00Z"}, [Flag.NO_TEXT], "\u200b\ufeff"),
        ({"body": "fine"}, [Flag.NO_TIME], "fine"),
        ({"body": "\x00"}, [Flag.NUL_REMOVED, Flag.NO_TEXT, Flag.NO_TIME], ""),
    ],
)
def test_what_was_noticed_is_flagged(fields: Record, flags: list[Flag], text: str) -> None:
    row = accepted([{"id": "7", **fields}]).loaded.row(0, named=True)
    assert row["flags"] == [flag.value for flag in flags]
    assert row["text"] == text
    if Flag.NO_TIME in flags:
        assert row["created_at"] == SEEN


WITHOUT_IDS = {
    "text": "body", "created_at": "when", "rating": "stars", "author_id": "who", "language": "lang", "channel": "via",
}  # fmt: skip


def test_a_source_without_ids_knows_the_same_record_again() -> None:
    same = {"body": "same", "when": "2026-09-01T10:00Z", "who": "ann"}
    whole = accepted([same, {"body": "other"}, same], columns=WITHOUT_IDS)
    kept, losers = settled(whole)
    assert kept.select("text", "author_id").rows() == [("other", None), ("same", "ann")]
    assert losers.select("line_no", "reason").rows() == [(2, Reason.SUPERSEDED.value)]


@pytest.mark.parametrize(
    "rest",
    [{"when": "2026-09-01T10:01Z"}, {"stars": "4"}, {"who": "bob"}, {"lang": "fr"}, {"via": "app"},
     {"#extra": '{"more": "2"}'}],
)  # fmt: skip
def test_equal_texts_of_a_source_without_ids_stay_apart_by_any_other_word(rest: Record) -> None:
    same = {"body": "same", "when": "2026-09-01T10:00Z", "stars": "5", "who": "ann", "lang": "en", "via": "web"}
    source = Source(columns=WITHOUT_IDS)
    given = records(source, [same, {**same, **rest}]).with_columns(
        pl.Series("#extra", ['{"more": "1"}', rest.get("#extra", '{"more": "1"}')])
    )
    assert settled(accept(given, source, "shop", DAY))[0].height == 2


def test_equal_ids_of_two_sources_are_two_records() -> None:
    assert id_of("a", "1") != id_of("b", "1")
    assert id_of("a", "b1") != id_of("ab", "1")


@pytest.mark.parametrize(
    ("dedupe", "winner", "losers"),
    [
        ("last", "newest", [("a.csv", 2), ("a.csv", 3)]),
        ("first", "old", [("a.csv", 3), ("b.csv", 2)]),
        ("newest", "newer", [("a.csv", 2), ("b.csv", 2)]),
    ],
)
def test_of_equal_ids_one_stays_by_rule_and_all_can_be_traced(
    dedupe: Dedupe, winner: str, losers: list[tuple[str, int]]
) -> None:
    source = Source(columns=FULL)
    old = one(body="old", when="2026-09-01T08:00Z")
    first = accept(records(source, [old, one(body="newer", when="2026-09-01T10:00Z")]), source, "shop", DAY)
    last = accept(records(source, [one(body="newest", when="2026-09-01T09:00Z")], "b.csv"), source, "shop", DAY)
    kept, lost = settled(first, last, dedupe=dedupe)
    assert kept["text"].to_list() == [winner]
    place = f"{kept['file_uri'].item()} line {kept['line_no'].item()}"
    assert lost["reason"].unique().to_list() == [Reason.SUPERSEDED.value]
    assert lost.select("file_uri", "line_no").rows() == [(f"2026-09-01/{name}", line) for name, line in losers]
    assert all(place in detail for detail in lost["detail"])


def test_newest_is_the_last_landed_where_times_are_equal() -> None:
    same = {"when": "2026-09-01T08:00Z"}
    kept, _ = settled(accepted([one(body="a", **same), one(body="b", **same)]), dedupe="newest")
    assert kept["text"].to_list() == ["b"]


@pytest.mark.parametrize(
    ("given", "unit", "utc"),
    [
        ("1711848600", "s", "2024-03-31 01:30"),
        ("1711848600000", "ms", "2024-03-31 01:30"),
        ("1711848600000000", "us", "2024-03-31 01:30"),
        ("1711848600000000000", "ns", "2024-03-31 01:30"),
        ("-86400", "s", "1969-12-31 00:00"),
        ("2024-03-31T02:30:00+02:00", "s", "2024-03-31 00:30"),
        ("1711848600", None, None),
        ("1711848600.5", "s", None),
        ("99999999999999999", "s", None),
    ],
)
def test_numbers_are_times_only_in_a_declared_unit(given: str, unit: str | None, utc: str | None) -> None:
    whole = accepted([one(when=given)], epoch_unit=unit)
    found = [f"{moment:%Y-%m-%d %H:%M}" for moment in whole.loaded["created_at"]]
    assert found == ([] if utc is None else [utc])


def test_dead_letters_have_the_columns_of_their_table() -> None:
    refused = accepted([one(id="")]).refused.with_columns(raw=pl.lit("as it stood"))
    assert dict(dead_letters(refused, "shop", DAY).schema) == QUARANTINED_FEEDBACK


def test_a_batch_of_nothing_keeps_its_contract() -> None:
    whole = accepted([])
    assert dict(whole.loaded.schema) == RAW_FEEDBACK
    assert whole.refused.is_empty()


@pytest.mark.parametrize("text", ["", "a", "caf\u00e9", "😀" * 40])
def test_the_content_hash_is_the_sha256_of_the_text(text: str) -> None:
    assert pl.DataFrame({"text": [text]}).select(content_hash("text")).item() == sha256(text)


@pytest.mark.parametrize(("text", "expected"), [("a", True), ("😀", True), ("", False), (" \t\n\u2060", False)])
def test_sendable(text: str, expected: bool) -> None:
    assert pl.DataFrame({"text": [text]}).select(sendable()).item() is expected


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FIELD = (
    st.none()
    | TEXT
    | st.sampled_from(
        [
            "",
            " ",
            "7",
            "00123",
            "1,2E+9",
            "4,5",
            "2024-03-31T02:30:00",
            "2026-09-01T10:00:00Z",
            "1e400",
            "1711848600",
            "999999999999999999",
            "\x00",
            "\u200b",
        ]
    )
)
CONTRACTS = st.fixed_dictionaries(
    {},
    optional={
        "time_zone": st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns"]),
        "time_format": st.sampled_from(["%d/%m/%Y %H:%M", "%Y-%m-%d", "%Y-%m-%d %H:%M %z", "%s", "%+"]),
        "epoch_unit": st.sampled_from(["s", "ms", "us", "ns"]),
        "decimal_mark": st.sampled_from([".", ","]),
        "columns": st.sampled_from([FULL, {"text": "body"}, {"text": "body", "rating": "stars"}]),
    },
)


@given(
    rows=st.lists(st.fixed_dictionaries(dict.fromkeys(FULL.values(), FIELD)), max_size=12),
    contract=CONTRACTS,
)
def test_nothing_is_lost_nothing_raises_and_a_replay_gives_the_same(
    rows: list[Record], contract: dict[str, Any]
) -> None:
    first, again = accepted(rows, **contract), accepted(rows, **contract)
    assert first.loaded.height + first.refused.height == len(rows)
    assert sorted([*first.loaded["line_no"], *first.refused["line_no"]]) == list(range(2, len(rows) + 2))
    assert_frame_equal(first.loaded, again.loaded)
    assert_frame_equal(first.refused, again.refused)
    kept, losers = settled(first)
    assert kept.height + losers.height == first.loaded.height
    assert kept["feedback_id"].is_unique().all()
    assert set(first.refused["reason"]) <= {reason.value for reason in Reason}
