from datetime import date
from typing import Any

import pytest

from platform_assets.checks.normalized_feedback import language_mix, one_record_each, share_deferred, values_allowed
from platform_assets.domain.measurement import Verdict
from tests.checks.conftest import Store, frame

FINE = {
    "feedback_id": "a",
    "sentiment": "mixed",
    "urgency": "high",
    "normalizer": "local",
    "status": "ok",
    "confidence": 1.0,
    "sentiment_score": -1.0,
    "cost_usd": 0.0,
}


def normalized(*rows: dict[str, Any]) -> Any:
    return frame("normalized_feedback", list(rows))


@pytest.mark.parametrize(
    ("ids", "found"),
    [
        ("ab", []),
        ("a", ["b: 0 rows"]),
        ("aab", ["a: 2 rows"]),
        ("abc", ["c: 1 rows"]),
        ("", ["a: 0 rows", "b: 0 rows"]),
    ],
)
def test_one_record_each(ids: str, found: list[str]) -> None:
    raw = frame("raw_feedback", [{"feedback_id": "a"}, {"feedback_id": "b"}])
    measured = one_record_each(raw, normalized(*({"feedback_id": one} for one in ids)))
    assert (measured.examples, measured.value, measured.rows) == (found, len(found), 2)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, None),
        ({"sentiment": None, "urgency": None, "confidence": None, "sentiment_score": None}, None),
        ({"sentiment": "angry"}, "sentiment 'angry' is none of negative, neutral, positive, mixed"),
        ({"urgency": "asap"}, "urgency 'asap' is none of"),
        ({"status": "done"}, "status 'done' is none of"),
        ({"normalizer": "gpt"}, "normalizer 'gpt' is none of"),
        ({"confidence": 1.01}, "confidence 1.01 is out of range"),
        ({"confidence": float("nan")}, "confidence nan is out of range"),
        ({"sentiment_score": -1.5}, "sentiment_score -1.5 is out of range"),
        ({"cost_usd": -0.1}, "cost_usd -0.1 is out of range"),
        ({"status": None}, "status is null"),
        ({"normalizer": None}, "normalizer is null"),
    ],
)
def test_values_allowed(change: dict[str, Any], says: str | None) -> None:
    measured = values_allowed(normalized(FINE, {**FINE, **change}))
    assert measured.verdict is (Verdict.FAILED if says else Verdict.PASSED)
    assert len(measured.examples) == (1 if says else 0)
    assert says is None or measured.examples[0].startswith(says)


@pytest.mark.parametrize(
    ("statuses", "value"),
    [(["ok", "deferred", "deferred", "ok", "no_text"], 0.5), (["ok"], 0.0), (["no_text"], None), ([], None)],
)
def test_share_deferred(statuses: list[str], value: float | None) -> None:
    rows = [{**FINE, "status": status, "route_reason": f"why {status}"} for status in statuses]
    measured = share_deferred(normalized(*rows))
    assert measured.value == value
    assert measured.examples == (["why deferred: 2"] if "deferred" in statuses else [])


def languages(**counts: int) -> list[dict[str, Any]]:
    return [{"language": language} for language, count in counts.items() for _ in range(count)]


def test_the_language_mix_is_held_against_the_seven_days_before(store: Store) -> None:
    store(date(2026, 9, 2), normalized_feedback=languages(fr=100))
    store(date(2026, 9, 3), normalized_feedback=languages(en=3))
    store(date(2026, 9, 9), normalized_feedback=[*languages(de=1), {"language": None}])
    store(date(2026, 9, 11), normalized_feedback=languages(zh=100))
    day = store(date(2026, 9, 10), normalized_feedback=languages(en=1, de=1))
    measured = language_mix(day)
    assert measured.value == pytest.approx(0.25)
    assert (measured.rows, sorted(measured.examples)) == (2, ["de: 1", "en: 1"])


@pytest.mark.parametrize(("before", "today"), [(3, 25), (25, 3)])
def test_a_language_mix_is_as_sure_as_its_smaller_side(store: Store, before: int, today: int) -> None:
    store(date(2026, 9, 9), normalized_feedback=languages(en=before))
    assert language_mix(store(date(2026, 9, 10), normalized_feedback=languages(en=today))).rows == 3


@pytest.mark.parametrize(("before", "today"), [({}, {"en": 5}), ({"en": 5}, {}), ({}, {})])
def test_a_language_mix_of_nothing_is_no_number(store: Store, before: dict[str, int], today: dict[str, int]) -> None:
    store(date(2026, 9, 9), normalized_feedback=languages(**before))
    measured = language_mix(store(date(2026, 9, 10), normalized_feedback=languages(**today)))
    assert measured.verdict is Verdict.NOT_ENOUGH_DATA
