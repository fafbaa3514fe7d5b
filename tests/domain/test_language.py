import pytest

from platform_assets.domain.language import UNDETERMINED, detect_languages, primary_subtag

SENTENCES = {
    "en": "I ordered this lamp three weeks ago and nothing has arrived, please tell me where my order is.",
    "de": "Das Paket kam zwei Wochen zu spät und niemand hat geantwortet.",
    "es": "El paquete llegó con dos semanas de retraso y nadie contestó.",
    "zh": "包裹晚到了两个星期，没有人回复我的邮件。",
}


@pytest.mark.parametrize(("language", "text"), SENTENCES.items())
@pytest.mark.parametrize("declared", [None, "xx", "en", "de"])
def test_a_whole_sentence_is_recognised_whatever_was_declared(language: str, text: str, declared: str | None) -> None:
    (found,) = detect_languages([text], [declared])
    assert found.language == language
    assert 0.5 < found.confidence <= 1


@pytest.mark.parametrize("text", ["", " ", "😡😡", "12345", "!?", "\u200b"])
@pytest.mark.parametrize("declared", [None, "de"])
def test_without_letters_there_is_no_language(text: str, declared: str | None) -> None:
    (found,) = detect_languages([text], [declared])
    assert (found.language, found.confidence) == (UNDETERMINED, 0.0)


@pytest.mark.parametrize("text", ["Super", "Total", "Normal"])
def test_the_declared_language_decides_a_word_that_many_share(text: str) -> None:
    found = detect_languages([text] * 3, ["de", "en-GB", "es_ES"])
    assert [one.language for one in found] == ["de", "en", "es"]


def test_belief_rises_with_the_declaration() -> None:
    alone, declared = detect_languages(["Alles gut"] * 2, [None, "de"])
    assert declared.confidence >= alone.confidence
    assert declared.language == "de"


def test_texts_keep_their_order_and_none_gives_none() -> None:
    found = detect_languages(list(SENTENCES.values()), [None] * len(SENTENCES))
    assert [one.language for one in found] == list(SENTENCES)
    assert detect_languages([], []) == []


@pytest.mark.parametrize(
    ("tag", "language"),
    [("de-DE", "de"), ("de_DE", "de"), ("ZH-Hans-CN", "zh"), (" en ", "en"), ("", None), (None, None), ("-", None)],
)
def test_primary_subtag(tag: str | None, language: str | None) -> None:
    assert primary_subtag(tag) == language
