"""The sweep's order and bounds, and a config.pbtxt with another number of instances."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from resources.encoder_pace import Pace, choose
from resources.encoder_tuning import instances_in, sample_texts, set_instances, sweep, with_instances
from resources.errors import ConfigurationError

HERE = Path("config.pbtxt")
CONFIG = """\
# instance_group [ { count: 9, kind: KIND_CPU } ] is not what counts
name: "model"
instance_group [ { count: 2, kind: KIND_CPU } ]  # two
max_batch_size: 8
"""


class Machine:
    """Encoders of known speed, on a clock of their own."""

    def __init__(self, rate: Callable[[int, Pace], float]) -> None:
        self.now = 0.0
        self.calls: list[tuple[int, Pace, int]] = []
        self._rate = rate

    def encoder(self, instances: int) -> Callable[[Pace, Sequence[str]], None]:
        def encode(pace: Pace, texts: Sequence[str]) -> None:
            self.calls.append((instances, pace, len(texts)))
            self.now += len(texts) / self._rate(instances, pace)

        return encode


def peaked(instances: int, pace: Pace) -> float:
    return 1000 * max(min(instances, 2), 1) - abs(pace.token_budget - 512) - 50 * abs(pace.in_flight - 4)


def test_a_sweep_finds_the_fastest_and_keeps_to_its_time() -> None:
    machine = Machine(peaked)
    encoders = {count: machine.encoder(count) for count in (1, 2, 3)}
    trials = sweep(encoders, (256, 512, 1024), sample_texts(20_000), 60, lambda: machine.now)
    assert len(trials) == 3 * 3 * 4
    assert all(len(trial.rates) == 3 for trial in trials)
    chosen = choose(trials)
    assert (chosen.instances, chosen.pace) == (2, Pace(512, 4))
    assert chosen.rate == pytest.approx(2000)
    assert 30 < machine.now < 90


def test_the_order_turns_every_round() -> None:
    machine = Machine(peaked)
    sweep({2: machine.encoder(2)}, (512,), sample_texts(300), 1, lambda: machine.now)
    measured = [pace.in_flight for _, pace, _ in machine.calls[2:]]
    assert measured == [2, 3, 4, 6, 6, 4, 3, 2, 2, 3, 4, 6]


def test_however_little_time_there_is_enough_texts_are_measured() -> None:
    machine = Machine(peaked)
    sweep({0: machine.encoder(0)}, (512,), sample_texts(5000), 0.001, lambda: machine.now + len(machine.calls))
    assert {count for _, _, count in machine.calls} == {100}


def test_the_texts_are_the_same_each_time_and_differ() -> None:
    texts = sample_texts(200)
    assert texts == sample_texts(200)
    assert len(set(texts)) == 200
    assert sum(len(text.split()) > 80 for text in texts) == 20


def test_only_the_number_of_instances_changes(tmp_path: Path) -> None:
    path = tmp_path / "config.pbtxt"
    path.write_text(CONFIG)
    assert instances_in(path) == 2
    assert set_instances(path, 12)
    assert path.read_text() == CONFIG.replace("count: 2", "count: 12")
    assert instances_in(path) == 12
    assert not set_instances(path, 12)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "group",
    [
        "",
        "# instance_group [ { count: 2, kind: KIND_CPU } ]",
        "instance_group [ { count: 2, kind: KIND_GPU } ]",
        "instance_group [ { kind: KIND_CPU } ]",
        "instance_group [ { count: 1, kind: KIND_CPU }, { count: 1, kind: KIND_GPU } ]",
        "instance_group [ { count: 1, kind: KIND_CPU } ]\ninstance_group [ { count: 2, kind: KIND_CPU } ]",
    ],
)
def test_instances_in_another_form_are_refused(group: str) -> None:
    with pytest.raises(ConfigurationError, match=r"config.pbtxt: write its instances as `instance_group \[ \{ count"):
        with_instances(f'name: "model"\n{group}\n', 4, HERE)


def test_the_shipped_embedder_can_be_tuned(project_root: Path) -> None:
    assert instances_in(project_root / "model_repository/text_embedder/config.pbtxt") >= 1
