"""An annotation: what a program says about a moment."""

import json
from dataclasses import dataclass, field
from typing import Any

from scope_agentd.errors import AnnotationRefused

LONGEST_TEXT, MOST_LABELS, LONGEST_LABEL = 500, 16, 63  # characters


@dataclass(frozen=True)
class Said:
    """A text with labels, such as `step 1200` with `epoch=3`."""

    text: str
    labels: dict[str, str] = field(default_factory=dict)


def read_line(line: bytes) -> Said:
    """What a line says: a text, or a JSON object with `text` and `labels`.

    Raises:
        AnnotationRefused: it is neither, or too long; the message says what is wrong.
    """
    try:
        told = line.decode().strip()
    except UnicodeDecodeError:
        raise AnnotationRefused("the line is not UTF-8") from None
    return _from_json(told) if told.startswith("{") else _checked(told, {})


def _from_json(told: str) -> Said:
    try:
        given: Any = json.loads(told)
    except (ValueError, RecursionError):
        raise AnnotationRefused('the line begins like JSON but is none; write {"text": "...", "labels": {}}') from None
    unknown = set(given) - {"text", "labels"}
    if unknown:
        raise AnnotationRefused(f"unknown field '{sorted(unknown)[0][:LONGEST_LABEL]}'; there are: text, labels")
    return _checked(given.get("text"), given.get("labels", {}))


def _checked(text: Any, labels: Any) -> Said:
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST_TEXT or not _storable(text):
        raise AnnotationRefused(f"text: must be 1 to {LONGEST_TEXT} characters, without NUL")
    if not isinstance(labels, dict) or len(labels) > MOST_LABELS:
        raise AnnotationRefused(f"labels: must be an object with at most {MOST_LABELS} members")
    given = {name: value if isinstance(value, str) else json.dumps(value) for name, value in labels.items()}
    for name, value in given.items():
        if not (0 < len(name) <= LONGEST_LABEL and len(value) <= LONGEST_LABEL and _storable(name + value)):
            raise AnnotationRefused(f"labels: names and values have at most {LONGEST_LABEL} characters, without NUL")
    return Said(text, given)


def _storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
