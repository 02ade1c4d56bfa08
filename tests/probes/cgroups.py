"""Cgroups of a test's own, with limits: of version 1 or 2, whichever has the controller here."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

ROOT = Path("/sys/fs/cgroup")


@contextmanager
def limited(controller: str, limits: Mapping[Path, Mapping[str, str]]) -> Iterator[Path]:
    """A cgroup until the end of the block; skips the test if none can have the limit.

    Args:
        controller: its name in version 2.
        limits: the files with their texts, for each root that a cgroup may be in. The first file of a root has to be
            there; the others are written if they can be.
    """
    for root, texts in limits.items():
        folder = root / f"scope-test-{os.getpid()}"
        if not (root / "cgroup.procs").exists():
            continue
        with suppress(OSError):  # it has been switched on, or cannot be
            (root / "cgroup.subtree_control").write_text(f"+{controller}")
        folder.mkdir()
        try:
            (first, text), *others = texts.items()
            if (folder / first).exists():
                (folder / first).write_text(text)
                for name, text in others:
                    with suppress(OSError):
                        (folder / name).write_text(text)
                yield folder
                return
        finally:
            folder.rmdir()
    pytest.skip(f"no cgroup has limits of {controller} here")
