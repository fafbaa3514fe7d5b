from resources.triton_breaker import FAILURES, CircuitBreaker
from resources.triton_retries import Failure, Kind, Retries, dead_model


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def opened() -> tuple[CircuitBreaker, Clock]:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    for _ in range(FAILURES):
        assert breaker.admit() == "closed"
        breaker.failed()
    return breaker, clock


def test_it_opens_after_failures_in_a_row_only() -> None:
    breaker = CircuitBreaker(Clock())
    for _ in range(3):
        for _ in range(FAILURES - 1):
            breaker.failed()
        breaker.succeeded()
    assert breaker.admit() == "closed"
    assert opened()[0].admit() == "open"


def test_one_caller_probes_after_the_rest_and_its_success_closes_it() -> None:
    breaker, clock = opened()
    clock.now = 1.0
    assert [breaker.admit() for _ in range(3)] == ["probe", "open", "open"]
    breaker.succeeded()
    assert breaker.admit() == "closed"


def test_the_rests_double_up_to_a_limit() -> None:
    breaker, clock = opened()
    for rest in (1, 2, 4, 8, 16, 30, 30):
        clock.now += rest - 0.01
        assert breaker.admit() == "open"
        clock.now += 0.01
        assert breaker.admit() == "probe"
        breaker.failed()


def test_what_was_under_way_when_it_opened_does_not_prolong_the_rest() -> None:
    breaker, clock = opened()
    clock.now = 0.9
    breaker.failed()
    clock.now = 1.0
    assert breaker.admit() == "probe"


def test_waits_grow_and_differ() -> None:
    away = Failure(Kind.AWAY, "")
    all_waits = []
    for _ in range(50):
        retries = Retries(5)
        waits = [retries.wait_s(away, 99, elsewhere=False) for _ in range(5)]
        assert waits[4] is None
        all_waits.append([wait for wait in waits if wait is not None])
    for place, longest in enumerate((0.2, 0.4, 0.8, 1.6)):
        at_place = {waits[place] for waits in all_waits}
        assert longest / 2 <= min(at_place) <= max(at_place) <= longest
        assert len(at_place) > 1


def test_no_wait_is_longer_than_what_is_left() -> None:
    retries = Retries(5)
    assert retries.wait_s(Failure(Kind.BUSY, ""), 0.05, elsewhere=True) is None


def test_a_model_that_is_not_there_is_looked_for_elsewhere_only() -> None:
    missing = Failure(Kind.NOT_READY, "")
    assert Retries(5).wait_s(missing, 99, elsewhere=False) is None
    assert Retries(5).wait_s(missing, 99, elsewhere=True) is not None
    assert Retries(5).wait_s(Failure(Kind.FAILED, ""), 99, elsewhere=True) is None


def test_the_dead_part_of_an_ensemble_is_named() -> None:
    def dead(process: str) -> Failure:
        return Failure(Kind.DEAD, f"in ensemble 'chain', Stub process '{process}' is not healthy.")

    assert dead_model(dead("text_embedder_0_1"), "chain") == "text_embedder"
    assert dead_model(dead("model_2_0"), "model_2") == "model_2"
