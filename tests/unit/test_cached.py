"""Workloads are compiled once for what they are made of."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import cached

COMPILER = """#!/bin/sh
test "$1" = --version && exec cat {folder}/version
echo run >> {folder}/runs
shift; output=$2; shift 2; cat "$@" > "$output"
test ! -e {folder}/fails
"""


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that joins its sources, and counts its runs."""
    monkeypatch.setattr(cached, "CACHE", tmp_path / "cache")
    (made := tmp_path / "compiler").write_text(COMPILER.format(folder=tmp_path))
    made.chmod(0o755)
    (tmp_path / "version").write_text("1")
    (tmp_path / "one.c").write_text("one")
    (tmp_path / "one.h").write_text("header")
    return made


@pytest.fixture
def make(compiler: Path, tmp_path: Path) -> Callable[[str, str], Path]:
    """Compiles with a word to a file of this name."""
    return lambda name, word: cached.compiled(tmp_path / name, compiler, [word], tmp_path / "one.c")


def test_what_is_known_is_copied(make: Callable[[str, str], Path], tmp_path: Path) -> None:
    """The compiler runs again for another word, source, header, version or name, and for nothing else."""

    def runs(word: str) -> list[int]:
        counts = []
        for _ in range(2):
            assert make("program", word).read_text() == (tmp_path / "one.c").read_text()
            (tmp_path / "program").unlink()
            counts.append((tmp_path / "runs").read_text().count("run"))
        return counts

    assert runs("-a") == [1, 1]
    assert runs("-b") == [2, 2]
    (tmp_path / "one.c").write_text("two")
    assert runs("-b") == [3, 3]
    (tmp_path / "one.h").write_text("other")
    assert runs("-b") == [4, 4]
    (tmp_path / "version").write_text("2")
    cached._told.cache_clear()
    assert runs("-b") == [5, 5]


def test_each_has_a_file_of_its_own(make: Callable[[str, str], Path], tmp_path: Path) -> None:
    """Who changes what was made changes it for nobody else."""
    make("program", "-a").write_text("changed")
    (tmp_path / "program").rename(tmp_path / "other")
    assert make("program", "-a").read_text() == "one"


def test_a_failure_is_not_kept(make: Callable[[str, str], Path], tmp_path: Path) -> None:
    """A compiler that fails has made nothing, even if it wrote a part; it is run again."""
    (tmp_path / "fails").touch()
    with pytest.raises(subprocess.CalledProcessError):
        make("program", "-a")
    (tmp_path / "fails").unlink()
    assert make("program", "-a").read_text() == "one"
