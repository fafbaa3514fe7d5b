"""What a column's name tells of what it holds, in the languages in which exports come.

What its values tell is `suggested_source.py`.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final


def plain_words(text: str) -> list[str]:
    """The words of a name, also of one in camelCase: in lower case and without accents; `#` is one."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).replace("_", " ")
    plain = "".join(one for one in unicodedata.normalize("NFKD", spaced) if not unicodedata.combining(one))
    return re.findall(r"\w+|#", plain.casefold())


def _weighed(words: Mapping[int, str]) -> Mapping[str, int]:
    return {word: weight for weight, line in words.items() for word in plain_words(line)}


VOCABULARY: Final[Mapping[str, Mapping[str, int]]] = {
    "text": _weighed(
        {
            4: "text texte texto testo tekst comment comments kommentar commentaire comentario commento opmerking "
            "review reviews rezension recension feedback message nachricht mensaje messaggio body verbatim avis "
            "opinion reseña recensione bewertung rückmeldung meinung komentarz комментарий отзыв yorum",
            1: "content inhalt contenu contenido description beschreibung descripcion note notiz details anliegen",
            -3: "title titel titre titulo subject betreff sujet objet asunto reply antwort respuesta reponse product "
            "produkt produit producto name url link type typ category kategorie status id nr date datum language "
            "sprache",
        }
    ),
    "source_record_id": _weighed(
        {
            4: "id ids uuid guid identifier identifiant identificador kennung",
            3: "key nr no num number nummer numero # ref reference referenz schlüssel",
            -4: "product produkt produit producto item artikel sku asin store shop filiale parent thread phone telefon "
            "author autor auteur user nutzer benutzer usuario utilisateur customer kunde kunden client cliente "
            "reviewer requester email mail",
        }
    ),
    "created_at": _weighed(
        {
            4: "created creation erstellt erstell submitted eingegangen eingang posted published received cree creado "
            "creacion creato",
            3: "date datum datetime fecha data time timestamp ts zeit zeitpunkt zeitstempel heure hora at on дата",
            -4: "updated modified changed geändert aktualisiert modifie actualizado closed resolved geschlossen "
            "answered birth geburt birthday",
        }
    ),
    "rating": _weighed(
        {
            4: "rating ratings stars star sterne bewertung score punkte note noten nota etoiles estrellas puntuacion "
            "valoracion calificacion valutazione beoordeling nps csat оценка",
            1: "avis grade level points satisfaction zufriedenheit vote review",
            -5: "quantity menge anzahl count amount betrag price preis prix votes helpful age alter id nr number",
        }
    ),
    "author_id": _weighed(
        {
            4: "author autor auteur user nutzer benutzer usuario utilisateur customer kunde kunden client cliente "
            "reviewer requester verfasser member mitglied buyer account автор",
            2: "email mail",
            -5: "country land pays segment type typ group gruppe gender city stadt service",
        }
    ),
    "language": _weighed({4: "language languages lang locale sprache langue idioma lingua taal язык"}),
    "channel": _weighed(
        {
            4: "channel kanal canal canale kanaal",
            2: "platform plattform plateforme plataforma medium source quelle origen origine via",
        }
    ),
}
"""Our field → how much a word in a column's name speaks for it, or against it; without accents, in lower case."""

_LEAST_IN_COMPOUND: Final = 4
"""Shorter words are not looked for within compounds such as Erstelldatum."""


def weight(field_name: str, column: str) -> int:
    """How much a column's name speaks for one of our fields: its best word, less its worst."""
    weights = [
        each if is_last or each < 0 else each - 1
        for word, is_last in _words(column)
        for term, each in VOCABULARY[field_name].items()
        if _stands_in(term, word)
    ]
    return max([0, *weights]) + min([0, *weights])


def _words(column: str) -> list[tuple[str, bool]]:
    """The words, and whether they stand in the last part of a dotted path."""
    *parents, last = [column] if re.search(r"\s", column) else column.split(".")
    return [(word, False) for part in parents for word in plain_words(part)] + [
        (word, True) for word in plain_words(last)
    ]


def _stands_in(term: str, word: str) -> bool:
    """Whether a word is the term, or a compound that begins or ends with it."""
    return term == word or (len(term) >= _LEAST_IN_COMPOUND and (word.startswith(term) or word.endswith(term)))
