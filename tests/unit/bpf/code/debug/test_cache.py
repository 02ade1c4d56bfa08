"""The cache on disk, which other clients use too."""

import os
import time
from pathlib import Path

import pytest

from scope_bpf.code.debug.cache import Cache

DAY_S = 86_400
ID = "ab" * 20


def put(cache: Cache, build_id: str, unused_s: float) -> Path:
    with cache.new_file(build_id) as file:
        file.write(b"content")
    then = time.time() - unused_s
    os.utime(cache.path(build_id), (then, then))
    return cache.path(build_id)


def test_files_come_whole_or_not(tmp_path: Path) -> None:
    """A file that cannot be finished is not there."""
    cache = Cache(tmp_path / "cache")
    with pytest.raises(RuntimeError), cache.new_file(ID):
        raise RuntimeError
    assert not list(cache.path(ID).parent.iterdir())
    assert put(cache, ID, 0).read_bytes() == b"content"
    assert [path.name for path in cache.path(ID).parent.iterdir()] == ["debuginfo"]
    assert cache.path(ID).stat().st_mode & 0o077 == 0


def test_unused_files_are_deleted(tmp_path: Path) -> None:
    """Those of a week ago; once a day."""
    cache = Cache(tmp_path)
    old, new = put(cache, ID, 8 * DAY_S), put(cache, "cd" * 20, 6 * DAY_S)
    cache.clean()
    assert not old.parent.exists()
    assert new.exists()
    old = put(cache, ID, 8 * DAY_S)
    cache.clean()
    assert old.exists()
    os.utime(tmp_path / "cache_clean_interval_s", (0, 0))
    cache.clean()
    assert not old.exists()


def test_people_set_the_times(tmp_path: Path) -> None:
    """By the files of elfutils' client."""
    cache = Cache(tmp_path)
    kept = put(cache, ID, 8 * DAY_S)
    (tmp_path / "max_unused_age_s").write_text("1000000\n")
    cache.clean()
    assert kept.exists()
    cache.note_missing(ID)
    assert cache.says_missing(ID)
    (tmp_path / "cache_miss_s").write_text("0")
    assert not cache.says_missing(ID)
