"""The files that a repository's visitors and their tools read: hooks, templates, the changelog."""

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_hooks_run_programs_that_are_there() -> None:
    """Each hook of .pre-commit-config.yaml calls a tool of the build, so that nothing is downloaded."""
    entries = re.findall(r"entry: (\S+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert len(entries) == 3
    for program in entries:
        assert program == "clang-format" or shutil.which(ROOT / program), program


def test_links_to_files_exist() -> None:
    """Every link of these pages to another file of the tree leads to a file."""
    for page in (
        ROOT / name for name in ("README.md", "README.zh.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
    ):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_changelog_has_versions() -> None:
    """The newest version of the changelog is that of the package; what came later is above it, under Unreleased."""
    heads = re.findall(r"(?m)^## (.*)$", (ROOT / "CHANGELOG.md").read_text())
    (version,) = re.findall(r'(?m)^version = "(.*)"$', (ROOT / "pyproject.toml").read_text())
    assert heads[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", heads[1])


def test_the_changelog_says_each_thing_once() -> None:
    """No entry is there twice, which a merge of two branches could leave."""
    entries = re.split(r"\n(?=- |\n|#)", (ROOT / "CHANGELOG.md").read_text())
    named = [entry.strip() for entry in entries if entry.strip().startswith("- ")]
    assert len(named) > 50
    assert sorted(set(named)) == sorted(named)
