"""A reader of CSV by the letter of RFC 4180, slow and plain: what the product's readers are measured by."""

import re

_END_OF_PLAIN_FIELD = re.compile(r'[,\r\n"]|\Z')


def rfc_4180(text: str) -> list[list[str]] | None:
    """The records of a text (lines end with CRLF or LF); None where it breaks the grammar."""
    records: list[list[str]] = []
    record: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == '"':
            at += 1
            value = ""
            while (end := text.find('"', at)) >= 0 and text[end + 1 : end + 2] == '"':
                value += text[at : end + 1]
                at = end + 2
            if end < 0:
                return None
            value, at = value + text[at:end], end + 1
        else:
            match = _END_OF_PLAIN_FIELD.search(text, at)
            end = match.start() if match else len(text)
            value, at = text[at:end], end
        record.append(value)
        if text.startswith(",", at):
            at += 1
            if at < len(text) and text[at] not in "\r\n":
                continue
            record.append("")
        if at < len(text) and not text.startswith(("\r\n", "\n"), at):
            return None
        at += 2 if text.startswith("\r", at) else 1
        records.append(record)
        record = []
    return records
