"""Where the log goes."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from scope_cli import logs


@pytest.fixture
def root() -> Iterator[None]:
    """The root logger, as it was, at the end."""
    before, level = logging.root.handlers[:], logging.root.level
    for handler in before:
        logging.root.removeHandler(handler)
    yield
    for handler in logging.root.handlers[:]:
        logging.root.removeHandler(handler)
        handler.close()
    for handler in before:
        logging.root.addHandler(handler)
    logging.root.setLevel(level)


@pytest.mark.usefixtures("root")
def test_a_log_file_is_private(tmp_path: Path) -> None:
    """Only its owner can read the file, also one that an earlier version made; what it has stays."""
    file = tmp_path / "up.log"
    file.write_text("earlier\n")
    file.chmod(0o644)
    logs.to_file(file)
    logging.getLogger("any").warning("later")
    first, last = file.read_text().splitlines()
    assert (first, last.endswith("any: later")) == ("earlier", True)
    assert file.stat().st_mode & 0o777 == 0o600
