"""README.md is short, and README.zh.md has the same commands, outputs, pictures and links."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
ENGLISH, CHINESE = ((ROOT / name).read_text() for name in ("README.md", "README.zh.md"))


def _commands(text: str) -> list[str]:
    """The lines of all code blocks, without comments."""
    blocks = re.findall(r"```\w+\n(.*?)```", text, re.DOTALL)
    return [re.sub(r"  +# .*", "", line) for block in blocks for line in block.splitlines()]


def _links(text: str) -> list[str]:
    """Where links and pictures lead, in order, without the link to the other language."""
    return [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("README")]


def test_both_have_the_same_commands() -> None:
    """Commands and outputs are the same in both languages."""
    assert len(_commands(ENGLISH)) > 10
    assert _commands(CHINESE) == _commands(ENGLISH)


def test_both_lead_to_the_same_pages() -> None:
    """Links and pictures are the same, and each README leads to the other."""
    assert _links(CHINESE) == _links(ENGLISH)
    assert "](README.zh.md)" in ENGLISH
    assert "](README.md)" in CHINESE


def test_the_readme_is_short() -> None:
    """It has at most 80 lines: everything else is on a page of its own."""
    assert len(ENGLISH.splitlines()) <= 80
