from datetime import date
from typing import Any

import pytest

from platform_assets.checks.raw_feedback import checks, conserved, files_match, ids_unique, share_quarantined
from platform_assets.domain.measurement import Verdict
from platform_assets.domain.raw_feedback import Reason
from platform_assets.domain.thresholds import CheckLimits
from tests.checks.conftest import Store, frame

A, B = {"file_uri": "d/a.csv"}, {"file_uri": "d/b.csv"}


@pytest.mark.parametrize(
    ("ledger", "raw", "quarantined", "found"),
    [
        ({"a": 2, "b": 1}, [A, B], [A], []),
        ({"a": 0}, [], [], []),
        ({}, [], [], []),
        ({"a": 3}, [A], [A], ["d/a.csv: 3 records read, 2 stored"]),
        ({"a": 1}, [A, A], [], ["d/a.csv: 1 records read, 2 stored"]),
        ({"a": 1}, [A, B], [], ["d/b.csv: 0 records read, 1 stored"]),
        ({"a": 1, "b": 1}, [A, A], [], ["d/a.csv: 1 records read, 2 stored", "d/b.csv: 1 records read, 0 stored"]),
    ],
)
def test_conserved(ledger: dict[str, int], raw: list, quarantined: list, found: list[str]) -> None:
    files = [{"file_uri": f"d/{name}.csv", "records": count} for name, count in ledger.items()]
    measured = conserved(
        frame("landed_files", files), frame("raw_feedback", raw), frame("quarantined_feedback", quarantined)
    )
    assert (measured.examples, measured.value, measured.rows) == (found, len(found), sum(ledger.values()))
    fine = Verdict.PASSED if measured.rows else Verdict.NOT_ENOUGH_DATA
    assert measured.verdict is (Verdict.FAILED if found else fine)


def test_a_row_of_no_landed_file_is_a_breach_among_no_records() -> None:
    measured = conserved(frame("landed_files", []), frame("raw_feedback", [A]), frame("quarantined_feedback", []))
    assert (measured.examples, measured.rows) == (["d/a.csv: 0 records read, 1 stored"], 1)
    assert measured.verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("ids", "found"),
    [(["1", "2"], []), ([], []), (["2", "1", "2", "1", "1"], ["1 stands 3 times", "2 stands 2 times"])],
)
def test_ids_unique(ids: list[str], found: list[str]) -> None:
    measured = ids_unique(frame("raw_feedback", [{"feedback_id": one} for one in ids]))
    assert (measured.examples, measured.rows) == (found, len(ids))
    fine = Verdict.PASSED if ids else Verdict.NOT_ENOUGH_DATA
    assert measured.verdict is (Verdict.FAILED if found else fine)


@pytest.mark.parametrize(
    ("reasons", "breaches"),
    [
        ([], 0),
        ([Reason.BAD_TIME, Reason.SUPERSEDED, Reason.WRONG_FIELD_COUNT], 0),
        ([Reason.MISSING_COLUMN, Reason.MISSING_COLUMN], 1),
        ([Reason.UNREADABLE_FILE], 1),
        ([Reason.UNKNOWN_SOURCE], 1),
    ],
)
def test_files_match(reasons: list[Reason], breaches: int) -> None:
    letters = [{**A, "reason": reason.value, "detail": "why"} for reason in reasons]
    measured = files_match(frame("quarantined_feedback", letters), files=3)
    assert (measured.value, measured.rows) == (breaches, 3)
    assert measured.examples == [f"d/a.csv: {reason.value}: why" for reason in reasons[:breaches]]


@pytest.mark.parametrize(("letters", "kept", "value"), [(1, 3, 0.25), (0, 3, 0.0), (0, 0, None), (2, 0, 1.0)])
def test_share_quarantined(store: Store, letters: int, kept: int, value: float | None) -> None:
    rows: list[dict[str, Any]] = [{"reason": "bad_time"}] * letters
    day = store(raw_feedback=[{"feedback_id": "x"}] * kept, quarantined_feedback=rows)
    measured = share_quarantined(day)
    assert (measured.value, measured.rows) == (value, letters + kept)
    assert measured.examples == ([f"bad_time: {letters}"] if letters else [])


def test_the_checks_look_at_their_day_alone(store: Store, limits: CheckLimits) -> None:
    store(date(2026, 9, 9), raw_feedback=[A, A, A], quarantined_feedback=[A], landed_files=[{**A, "records": 9}])
    day = store(raw_feedback=[{**A, "feedback_id": "1"}], quarantined_feedback=[], landed_files=[{**A, "records": 1}])
    measured = {check.name: check.measure(day) for check in checks(limits)}
    assert {name: one.value for name, one in measured.items()} == {
        "records_conserved": 0,
        "ids_unique": 0,
        "files_match_contract": 0,
        "schema": 0,
        "share_quarantined": 0,
    }
    assert measured["share_quarantined"].verdict is Verdict.NOT_ENOUGH_DATA
