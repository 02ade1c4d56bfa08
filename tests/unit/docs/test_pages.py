"""docs/architecture.md names only files that exist, and links of all pages lead to files, and every page is linked."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
PAGES = [str(page.relative_to(DOCS)) for page in sorted(DOCS.rglob("*.md"))]


def test_the_files_exist() -> None:
    """Each file and folder on the page exists, in the drawing too."""
    text = (DOCS / "architecture.md").read_text()
    named = set(re.findall(r"(?<![\w/])(?:bpf|src|proto|tests)/[\w./]*\w", text)) - {"bpf/probes/NAME"}
    assert len(named) > 20
    assert [name for name in named if not (DOCS.parent / name).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    """Every relative link of a page leads to a file."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (DOCS / page).read_text()):
        assert ((DOCS / page).parent / target).exists(), target


def test_every_page_can_be_found() -> None:
    """From README.md, links lead to every page of docs/."""
    found, left = set[Path](), [DOCS.parent / "README.md"]
    while left:
        page = left.pop()
        found.add(page)
        links = re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", page.read_text())
        left += {(page.parent / link).resolve() for link in links} - found
    assert {DOCS / page for page in PAGES} <= found
