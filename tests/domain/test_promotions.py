import pytest

from platform_assets.domain.promotions import Action, Step, former_version

FIT, UP, BACK = Action.FITTED, Action.PROMOTED, Action.ROLLED_BACK


@pytest.mark.parametrize(
    ("record", "former"),
    [
        ([], None),
        ([Step(FIT, 1, None)], None),
        ([Step(UP, 2, 1)], 1),
        ([Step(UP, 2, 1), Step(UP, 3, 2)], 2),
        ([Step(UP, 2, 1), Step(UP, 3, 2), Step(BACK, 2, 3)], 1),
        ([Step(UP, 2, 1), Step(BACK, 1, 2)], None),
        ([Step(UP, 2, 1), Step(BACK, 1, 2), Step(UP, 3, 1)], 1),
        ([Step(FIT, 1, None), Step(FIT, 2, 1), Step(UP, 1, 2)], 2),
        ([Step(BACK, 1, 2)], None),
    ],
)
def test_a_rollback_takes_back_the_last_promotion_that_stands(record: list[Step], former: int | None) -> None:
    assert former_version(record) == former
