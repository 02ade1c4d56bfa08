"""More files are kept than are open. Every kept file can be read, from any thread."""

import gc
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from scope_bpf.code.kept_files import KeptFile, KeptFiles


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / str(number) for number in range(100)]
    for number, path in enumerate(paths):
        path.write_text(f"{number:5}" * 100)
    return paths


def kept(files: KeptFiles, path: Path) -> KeptFile:
    return files.keep(os.open(path, os.O_RDONLY))


def descriptors() -> int:
    gc.collect()  # what earlier tests of this process left is closed now, not meanwhile
    return len(list(Path("/proc/self/fd").iterdir()))


def test_files_are_read_though_few_are_open(paths: list[Path]) -> None:
    """Kept files can be read after their deletion, and by several threads at once, with few open descriptors."""
    files, before = KeptFiles(most_open=3), descriptors()
    many = [kept(files, path) for path in paths]
    for path in paths:
        path.unlink()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: many[number % 100].pread(5, 5), range(4000)))
    assert [int(text) for text in found] == [number % 100 for number in range(4000)]
    assert files.count == 3
    assert descriptors() == before + 3
    for file in many:
        file.close()
    assert descriptors() == before
    assert many[7].pread(5, 0) == b"", "it was let go"
    assert not files.refused


def test_what_was_read_goes_with_the_descriptor(paths: list[Path]) -> None:
    """When a file's descriptor is closed, the data read from the file is freed."""
    files = KeptFiles(most_open=1)
    first, forgotten = kept(files, paths[0]), []
    first.forget = lambda: forgotten.append(0)
    second = kept(files, paths[1])
    assert forgotten == [0]
    first.close()
    second.close()


def test_without_a_descriptor_it_is_counted(paths: list[Path]) -> None:
    """Other kept files are closed to free descriptors. If that is not enough, reads return nothing and are counted."""
    files = KeptFiles(most_open=50)
    many = [kept(files, path) for path in paths]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 10, limits[1]))
    others = []
    try:
        with suppress(OSError):
            while True:
                others.append(os.open("/dev/null", os.O_RDONLY))
        assert int(many[0].pread(5, 0)) == 0
        assert files.count == 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
        assert many[1].pread(5, 0) == b""
        assert files.refused == 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in others:
            os.close(fd)
    assert int(many[1].pread(5, 0)) == 1
    for file in many:
        file.close()
