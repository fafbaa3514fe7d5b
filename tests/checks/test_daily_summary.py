import pytest

from platform_assets.checks.daily_summary import volumes_add_up
from tests.checks.conftest import Store


@pytest.mark.parametrize(
    ("volumes", "found"),
    [
        ([("shop", 1), ("shop", 1), ("desk", 1)], []),
        ([("shop", 1), ("desk", 1)], ["shop: 2 records, 1 summed up"]),
        ([("shop", 2)], ["desk: 1 records, 0 summed up"]),
        ([("shop", 2), ("desk", 1), ("app", 1)], ["app: 0 records, 1 summed up"]),
    ],
)
def test_volumes_add_up(store: Store, volumes: list[tuple[str, int]], found: list[str]) -> None:
    day = store(
        raw_feedback=[{"source": source} for source in ("shop", "shop", "desk")],
        daily_summary=[{"source": source, "volume": volume} for source, volume in volumes],
    )
    measured = volumes_add_up(day)
    assert (measured.examples, measured.value, measured.rows) == (found, len(found), 3)
