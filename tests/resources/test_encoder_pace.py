"""What suits a model before anything is measured, and which of the measured trials is taken."""

import os

import pytest

from resources.encoder_pace import Pace, Trial, choose, cores, counts_to_try, default_pace, machine, paces


@pytest.mark.parametrize(
    ("instances", "on_gpu", "pace"),
    [
        (1, False, Pace(256, 3)),
        (2, False, Pace(256, 4)),
        (16, False, Pace(256, 18)),
        (0, False, Pace(256, 3)),
        (1, True, Pace(16384, 2)),
        (4, True, Pace(16384, 8)),
    ],
)
def test_the_default_follows_the_instances_and_their_device(instances: int, on_gpu: bool, pace: Pace) -> None:
    assert default_pace(instances, on_gpu=on_gpu) == pace


def test_each_instance_is_kept_busy_in_all_that_is_tried() -> None:
    tried = paces(4, (256, 512))
    assert {pace.token_budget for pace in tried} == {256, 512}
    assert {pace.in_flight for pace in tried} == {4, 5, 6, 10}
    assert len(set(tried)) == len(tried) == 8
    assert default_pace(4, on_gpu=False) in tried


def trial(instances: int, token_budget: int, in_flight: int, *rates: float) -> Trial:
    return Trial(instances, Pace(token_budget, in_flight), rates)


@pytest.mark.parametrize(
    ("trials", "chosen"),
    [
        pytest.param([trial(1, 256, 2, 50, 50, 50), trial(2, 256, 3, 99, 100, 101)], 1, id="the fastest"),
        pytest.param([trial(3, 256, 4, 100, 100, 100), trial(2, 512, 5, 98.5, 98.5, 98.5)], 1, id="fewer instances"),
        pytest.param([trial(2, 256, 6, 100, 100, 100), trial(2, 512, 3, 99, 99, 99)], 1, id="fewer in flight"),
        pytest.param([trial(2, 512, 4, 100, 100, 100), trial(2, 256, 4, 99, 99, 99)], 1, id="smaller requests"),
        pytest.param([trial(2, 512, 4, 100, 100, 100), trial(1, 256, 3, 97, 97, 97)], 0, id="slower by more than 2 %"),
        pytest.param([trial(2, 512, 4, 94, 100, 106), trial(1, 256, 3, 95, 95, 95)], 1, id="within a noise of 6 %"),
        pytest.param([trial(2, 512, 4, 50, 100, 150), trial(1, 256, 3, 89, 89, 89)], 0, id="a noise of 10 % at most"),
        pytest.param(
            [trial(2, 512, 4, 10, 100, 101), trial(1, 256, 3, 80, 80, 80)], 0, id="one bad round counts little"
        ),
    ],
)
def test_the_smallest_that_is_as_fast_as_the_fastest_is_chosen(trials: list[Trial], chosen: int) -> None:
    assert choose(trials) is trials[chosen]


def test_a_machine_is_named_by_its_processor_and_the_cores_at_hand() -> None:
    if cores() > 1 and hasattr(os, "sched_setaffinity"):
        before = os.sched_getaffinity(0)
        everything = machine()
        try:
            os.sched_setaffinity(0, {min(before)})
            assert machine() == everything.replace(f"{len(before)} cores", "1 core")
            assert counts_to_try() == [1, 2]
        finally:
            os.sched_setaffinity(0, before)
    assert machine().endswith(f", {cores()} core" + "s" * (cores() > 1))
    assert not machine().startswith(",")
