"""The Chinese meanings of what the catalogue says in English: web/src/locales/zh/, a file for each probe."""

import json
from pathlib import Path
from typing import Any

from scope_catalogue.catalogue import probes
from scope_catalogue.template import TEMPLATES

FOLDER = Path(__file__).parents[3] / "web/src/locales/zh"


def _said() -> set[str]:
    """Every meaning of a probe, option, stream, column or template, and every title of a flame graph."""
    found = {template.meaning for template in TEMPLATES}
    for probe in probes().values():
        found |= {probe.meaning, *(option.meaning for option in probe.options)}
        for stream in probe.streams:
            found |= {stream.meaning, *(column.meaning for column in stream.columns)}
            found |= {flame.title} if (flame := stream.shown.flame) else set()
    return found - {""}


def _translated() -> dict[str, dict[str, str]]:
    files: dict[str, Any] = {file.stem: json.loads(file.read_text()) for file in FOLDER.iterdir()}
    return files


def test_every_meaning_is_in_chinese_once() -> None:
    """No meaning is left in English, translated twice, or translated though nothing says it any more."""
    texts = [text for file in _translated().values() for text in file]
    assert len(texts) == len(set(texts))
    assert set(texts) == _said()


def test_a_probe_has_a_file_of_its_own() -> None:
    """What only one probe says is in its file."""
    assert set(_translated()) - {"shared"} <= set(probes())
