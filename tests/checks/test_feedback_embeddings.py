from typing import Any

import pytest

from platform_assets.checks.feedback_embeddings import one_vector_each, share_failed, vectors_sound
from tests.checks.conftest import Store, frame

UNIT = [0.6, 0.8]


def raw(**texts: str) -> Any:
    return frame("raw_feedback", [{"feedback_id": identity, "text": text} for identity, text in texts.items()])


def vectors(*rows: tuple[str, str, list[float] | None]) -> Any:
    named = [{"feedback_id": identity, "status": status, "embedding": vector} for identity, status, vector in rows]
    return frame("feedback_embeddings", named)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([("a", "ok", UNIT), ("b", "no_text", None)], []),
        ([("a", "failed", None), ("b", "no_text", None)], []),
        ([("a", "ok", UNIT)], ["b: 0 rows, sent: None"]),
        ([("a", "no_text", None), ("b", "no_text", None)], ["a: 1 rows, sent: False"]),
        ([("a", "ok", UNIT), ("b", "ok", UNIT)], ["b: 1 rows, sent: True"]),
        ([("a", "ok", UNIT), ("a", "ok", UNIT), ("b", "no_text", None)], ["a: 2 rows, sent: True"]),
        ([("a", "ok", UNIT), ("b", "no_text", None), ("c", "ok", UNIT)], ["c: 1 rows, sent: True"]),
    ],
)
def test_one_vector_each(rows: list, found: list[str]) -> None:
    measured = one_vector_each(raw(a="text", b=" "), vectors(*rows))
    assert (measured.examples, measured.value, measured.rows) == (found, len(found), 2)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([("a", "ok", UNIT), ("b", "ok", [1.0, 0.0])], []),
        ([("a", "no_text", None), ("b", "failed", None)], []),
        ([], []),
        ([("a", "ok", UNIT), ("b", "ok", [0.0, 0.0])], ["b: not finite, or not of unit length"]),
        ([("a", "ok", UNIT), ("b", "ok", [float("nan"), 1.0])], ["b: not finite, or not of unit length"]),
        ([("a", "ok", UNIT), ("b", "ok", [None, 1.0])], ["b: not finite, or not of unit length"]),
        ([("a", "ok", UNIT), ("b", "ok", UNIT), ("c", "ok", [1.0])], ["c: 1 numbers, not 2"]),
        ([("a", "ok", UNIT), ("b", "ok", UNIT), ("c", "ok", None)], ["c: 0 numbers, not 2"]),
        ([("a", "ok", None)], ["a: not finite, or not of unit length"]),
        ([("a", "ok", [])], ["a: not finite, or not of unit length"]),
    ],
)
def test_vectors_sound(rows: list, found: list[str]) -> None:
    measured = vectors_sound(vectors(*rows).lazy())
    assert (measured.examples, measured.value) == (found, len(found))
    assert measured.rows == sum(status == "ok" for _, status, _ in rows)


@pytest.mark.parametrize(
    ("statuses", "value", "rows"),
    [(["ok", "ok", "failed", "no_text", "ok"], 0.25, 4), (["ok"], 0.0, 1), (["no_text"], None, 0), ([], None, 0)],
)
def test_share_failed(store: Store, statuses: list[str], value: float | None, rows: int) -> None:
    measured = share_failed(store(feedback_embeddings=[{"status": status} for status in statuses]))
    assert (measured.value, measured.rows) == (value, rows)
