import math
from typing import Any

import pytest

from platform_assets.domain.measurement import Measurement, Verdict, breaches, share, shown


def measured(value: float | None, **given: Any) -> Measurement:
    return Measurement(**{"value": value, "limit": 0.1, "rows": 30, "what": "share", "reason": "because", **given})


@pytest.mark.parametrize(
    ("value", "given", "verdict"),
    [
        (0.1, {}, Verdict.PASSED),
        (-5.0, {}, Verdict.PASSED),
        (0.1000001, {}, Verdict.FAILED),
        (math.inf, {}, Verdict.FAILED),
        (math.nan, {}, Verdict.FAILED),
        (None, {}, Verdict.NOT_ENOUGH_DATA),
        (9.0, {"min_rows": 31}, Verdict.NOT_ENOUGH_DATA),
        (9.0, {"min_rows": 30}, Verdict.FAILED),
        (0.0, {"rows": 0}, Verdict.PASSED),
    ],
)
def test_verdicts(value: float | None, given: dict[str, Any], verdict: Verdict) -> None:
    assert measured(value, **given).verdict is verdict


@pytest.mark.parametrize(
    ("value", "given", "sentence"),
    [
        (0.05, {}, "share: 0.05 ≤ 0.1 (30 rows)"),
        (3, {"unit": " sd"}, "share: 3 sd > 0.1 sd (30 rows)"),
        (math.nan, {}, "share: nan > 0.1 (30 rows)"),
        (0.05, {"min_rows": 40}, "not enough data for share: 30 of 40 rows"),
        (None, {}, "not enough data for share: nothing to compare with"),
        (None, {"lack": "no model yet"}, "not enough data for share: no model yet"),
        (None, {"min_rows": 40, "lack": "no model yet"}, "not enough data for share: 30 of 40 rows"),
    ],
)
def test_the_sentence_says_value_limit_and_rows(value: float | None, given: dict[str, Any], sentence: str) -> None:
    assert measured(value, **given).sentence == sentence


def test_a_share_of_nothing_is_no_number() -> None:
    assert share(0, 0, "share").verdict is Verdict.NOT_ENOUGH_DATA
    assert share(1, 4, "share").value == 0.25


def test_breaches_count_all_and_show_five() -> None:
    found = breaches([str(number) for number in range(9)], rows=20, what="breaches")
    assert (found.value, found.limit, found.verdict) == (9, 0, Verdict.FAILED)
    assert found.examples == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("found", "rows", "verdict", "sentence"),
    [
        ([], 20, Verdict.PASSED, "lost rows: none (20 looked at)"),
        (["a", "b"], 20, Verdict.FAILED, "lost rows: 2 (20 looked at)"),
        (["a", "b"], 0, Verdict.FAILED, "lost rows: 2 (2 looked at)"),
        ([], 0, Verdict.NOT_ENOUGH_DATA, "not enough data for lost rows: 0 of 1 rows"),
    ],
)
def test_the_sentence_of_breaches_counts_them(found: list[str], rows: int, verdict: Verdict, sentence: str) -> None:
    measured = breaches(found, rows=rows, what="lost rows")
    assert (measured.verdict, measured.sentence) == (verdict, sentence)


@pytest.mark.parametrize(("value", "text"), [(3.0, "3"), (0.123456, "0.1235"), (None, "–"), (math.inf, "inf")])
def test_shown(value: float | None, text: str) -> None:
    assert shown(value) == text
