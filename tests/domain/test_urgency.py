import pytest

from platform_assets.domain.urgency import urgency_of


@pytest.mark.parametrize(
    ("text", "urgency", "evidence"),
    [
        ("The charger caught fire on my desk.", "critical", "caught fire"),
        ("I will talk to MY LAWYER about it", "critical", "MY LAWYER"),
        ("I am going to sue you", "critical", "to sue"),
        ("I'll sue", "critical", "'ll sue"),
        ("WE WILL SUE YOU", "critical", "WILL SUE"),
        ("I see somebody else's invoice in my account", "critical", "somebody else's invoice"),
        ("Der Akku brennt und es stinkt", "critical", "brennt"),
        ("Ich war im Krankenhaus", "critical", "Krankenhaus"),
        ("Sale humo del aparato", "critical", "humo"),
        ("充电器冒烟了", "critical", "冒烟"),
        ("I cannot log in any more", "high", "cannot log in"),
        ("You charged me twice for one lamp", "high", "charged me twice"),
        ("The checkout is completely down", "high", "checkout is completely down"),
        ("Es ist dringend", "high", "dringend"),
        ("Mir wurde doppelt abgebucht", "high", "doppelt abgebucht"),
        ("No puedo pagar con la tarjeta", "high", "No puedo pagar"),
        ("订单重复扣款", "high", "重复扣款"),
    ],
)
@pytest.mark.parametrize("sentiment", [None, "positive"])
def test_words_give_urgency_and_stand_as_evidence(
    text: str, urgency: str, evidence: str, sentiment: str | None
) -> None:
    found = urgency_of(text, sentiment)
    assert (found.urgency, found.evidence) == (urgency, evidence)
    assert evidence in text


@pytest.mark.parametrize(
    ("sentiment", "urgency"),
    [("negative", "medium"), ("mixed", "medium"), ("neutral", "low"), ("positive", "low"), (None, "low")],
)
@pytest.mark.parametrize(
    "text",
    ["", "The colour is different from the picture.", "I pursue my hobby downtown", "Sue was kind, thanks to Sue"],
)
def test_without_such_words_the_sentiment_decides(text: str, sentiment: str | None, urgency: str) -> None:
    found = urgency_of(text, sentiment)
    assert (found.urgency, found.evidence) == (urgency, None)


def test_the_gravest_rule_goes_first() -> None:
    assert urgency_of("Urgent! I cannot log in and my account was hacked", None).urgency == "critical"
