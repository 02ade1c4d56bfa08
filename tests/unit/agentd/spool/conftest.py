"""The spools of these tests lie in memory: they sync files thousands of times."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory, instead of pytest's own, for one test."""
    with tempfile.TemporaryDirectory(prefix="spool", dir="/dev/shm") as folder:
        yield Path(folder)
