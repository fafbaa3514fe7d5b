"""How soon somebody has to look at a record, by rules that a person can read.

critical: someone may be hurt, data leaked, an account was taken over, or a lawyer is named.
high: the customer is stopped from using or paying, money was taken wrongly, or they say that it is urgent.
medium: any other record of negative or mixed sentiment.
low: the rest.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

Urgency = Literal["low", "medium", "high", "critical"]

_CRITICAL: Final = (
    # English
    r"\b(?:caught|on) fire\b",
    r"\bburn(?:t|ed|ing)?\s+(?:my|his|her|smell|plastic)",
    r"\bsmok(?:e|ing) (?:from|came|coming)",
    r"\belectric(?:al)? shock\b",
    r"\b(?:injur(?:y|ed|ies)|bleeding|hospital|choking hazard)\b",
    r"\bcut (?:her|his|my|their) (?:finger|hand)\b",
    r"\b(?:my )?(?:lawyer|attorney|solicitor)\b|\blegal action\b|\bsmall claims\b",
    # By its case: whoever speaks to Sue is not in court.
    r"(?:\b(?:to|will|gonna|shall|can)|['’]ll) (?-i:sue|SUE)\b",
    r"\bdata (?:leak|breach)\b|\bidentity theft\b|\bhacked\b",
    r"\b(?:someone|somebody) else'?s (?:order|address|account|data|invoice|name)\b",
    r"\b(?:account|card) (?:was |got |has been )?(?:taken over|stolen)\b",
    # German
    r"\b(?:brennt|gebrannt|brandgeruch|verschmort|rauch(?:t|entwicklung)?|stromschlag)\b",
    r"\b(?:verletzt|blutet|krankenhaus)\b",
    r"\b(?:anwalt|anwältin|rechtsanwalt|klage|verklagen|anzeige erstatten|verbraucherzentrale)\b",
    r"\b(?:datenleck|datenschutzverstoß|gehackt)\b",
    r"\bfremde[nr]? (?:daten|bestellung|adresse|rechnung)\b",
    # Spanish
    r"\b(?:incendi\w+|humo|quemad[oa]s?|descarga eléctrica|herid[oa]s?|sangr\w+|hospital)\b",
    r"\b(?:abogad[oa]s?|demandar\w*|denunci\w+|acciones legales)\b",
    r"\b(?:filtración de datos|hackead[oa]|hackearon)\b|\bdatos de otr[oa]s? (?:cliente|persona)s?\b",
    # Chinese
    r"起火|冒烟|烧焦|触电|受伤|流血|医院|律师|起诉|泄露|被盗|盗号|别人的(?:订单|地址|信息)",
)

_HIGH: Final = (
    # English
    r"\b(?:urgent(?:ly)?|asap|immediately|right now|emergency)\b",
    r"\b(?:can'?t|cannot|can not|couldn'?t|unable to) (?:log ?in|sign ?in|access|pay|check ?out|order|open)\b",
    r"\blocked out\b",
    r"\b(?:charged|billed) (?:me )?(?:twice|two times|double)\b|\bdouble[- ]charged\b",
    r"\bunauthori[sz]ed (?:charge|payment)\b",
    r"\b(?:site|app|shop|checkout|login|website|everything|server)s? (?:(?:is|are|was|has been) )?"
    r"(?:(?:completely|totally|still) )?(?:down|offline|dead|unreachable)\b",
    # German
    r"\b(?:dringend|sofort|eilt|schnellstmöglich|umgehend|ausgesperrt)\b",
    r"\bdoppelt abgebucht\b|\bzweimal (?:abgebucht|belastet)\b",
    r"\bkomme? nicht (?:mehr )?(?:rein|in mein)\b|\bnicht (?:mehr )?(?:einloggen|anmelden)\b",
    r"\b(?:seite|shop|app|server|login|kasse)\b.{0,30}\b(?:down|offline|nicht erreichbar|tot)\b",
    # Spanish
    r"\b(?:urgente|urgentemente|inmediatamente|cuanto antes)\b",
    r"\bno (?:puedo|me deja|pude) (?:entrar|acceder|pagar|iniciar sesión)\b|\bcobr\w+ (?:dos veces|doble)\b",
    r"\b(?:web|página|app|servidor|tienda)\b.{0,30}\b(?:caíd[oa]|no funciona)\b",
    # Chinese
    r"紧急|马上|立刻|尽快|登录不(?:了|上)|登不(?:上|进)|无法(?:登录|支付|付款|下单)|付不了款|重复扣款|扣了两次|崩溃|打不开",
)

_RULES: Final[tuple[tuple[Urgency, re.Pattern[str]], ...]] = (
    ("critical", re.compile("|".join(_CRITICAL), re.IGNORECASE)),
    ("high", re.compile("|".join(_HIGH), re.IGNORECASE)),
)


@dataclass(frozen=True)
class UrgencyFound:
    """An urgency and the words that gave it, verbatim; None where no rule for words fired."""

    urgency: Urgency
    evidence: str | None


def urgency_of(text: str, sentiment: str | None) -> UrgencyFound:
    """Apply the rules in order of gravity; the first that fires decides."""
    for urgency, pattern in _RULES:
        if match := pattern.search(text):
            return UrgencyFound(urgency, match.group(0))
    return UrgencyFound("medium" if sentiment in {"negative", "mixed"} else "low", None)
