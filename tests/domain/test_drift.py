import pytest

from platform_assets.domain.drift import novelty_z, total_variation


@pytest.mark.parametrize(("mean", "rows", "z"), [(0.5, 100, 10.0), (0.4, 25, 0.0), (0.39, 100, -1.0), (0.42, 4, 0.4)])
def test_novelty_z_is_the_one_sample_z_statistic(mean: float, rows: int, z: float) -> None:
    assert novelty_z(mean, rows, reference_mean=0.4, reference_sd=0.1) == pytest.approx(z)


@pytest.mark.parametrize(
    ("day", "before", "distance"),
    [
        ({"en": 5, "de": 5}, {"en": 50, "de": 50}, 0.0),
        ({"en": 1}, {"de": 1}, 1.0),
        ({"en": 3, "de": 1}, {"en": 1, "de": 1}, 0.25),
        ({"en": 1, "de": 1}, {"en": 1, "de": 1, "es": 2}, 0.5),
    ],
)
def test_total_variation(day: dict[str, int], before: dict[str, int], distance: float) -> None:
    assert total_variation(day, before) == pytest.approx(distance)
    assert total_variation(before, day) == pytest.approx(distance)
