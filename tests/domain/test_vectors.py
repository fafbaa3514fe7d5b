import numpy as np
import polars as pl
import pytest

from platform_assets.domain.vectors import column, is_sound, matrix, sound, unsound

UNIT = np.eye(3, dtype=np.float32)


@pytest.mark.parametrize(
    ("vector", "expected"),
    [
        ([1, 0, 0], True),
        ([0.6, 0.8, 0], True),
        ([1.0005, 0, 0], True),
        ([1.01, 0, 0], False),
        ([0, 0, 0], False),
        ([float("nan"), 1, 0], False),
        ([float("inf"), 0, 0], False),
        ([3e38, 3e38, 3e38], False),
    ],
)
def test_sound(vector: list[float], expected: bool) -> None:
    vectors = np.array([vector, [0, 1, 0]], dtype=np.float32)
    assert sound(vectors).tolist() == [expected, True]
    stored = pl.DataFrame({"embedding": column(vectors)})
    assert stored.select(is_sound()).to_series().to_list() == [expected, True]


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ([0, 0, 0], "zeros only"),
        ([float("nan"), 1, 0], "not finite"),
        ([float("inf"), 0, 0], "not finite"),
        ([3, 4, 0], "of length 5, not 1"),
    ],
)
def test_unsound_vectors_have_a_reason(vector: list[float], reason: str) -> None:
    found = unsound(np.array([[0, 1, 0], vector, [1, 0, 0]], dtype=np.float32))
    assert list(found) == [1]
    assert reason in found[1]


def test_a_column_and_a_matrix_are_the_same_numbers() -> None:
    stored = column(UNIT)
    assert stored.dtype == pl.List(pl.Float32)
    np.testing.assert_array_equal(matrix(stored), UNIT)
    assert matrix(stored).dtype == np.float32


def test_vectors_of_several_lengths_are_no_matrix() -> None:
    with pytest.raises(ValueError, match="vectors of"):
        matrix(pl.Series([[1.0], [1.0, 2.0]]))


def test_no_vectors_are_an_empty_matrix() -> None:
    assert matrix(pl.Series([], dtype=pl.List(pl.Float32))).shape == (0, 0)
    assert column(np.empty((0, 3), np.float32)).to_list() == []
