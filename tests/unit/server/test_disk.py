"""The storage limit and the free floor are shares of the database's disk, or the given values."""

from collections import namedtuple
from pathlib import Path
from typing import Any, cast

import pytest

from scope_server.store.retention import disk
from scope_server.store.retention.disk import Disk

MIB, GIB = 1 << 20, 1 << 30
Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(
    ("total", "limit", "floor"),
    [
        (10_000 * GIB, 20 * GIB, 200 * GIB),  # the cap; 2 %
        (100 * GIB, 20 * GIB, 2 * GIB),  # a fifth equals the cap
        (50 * GIB, 10 * GIB, GIB),
        (10 * GIB, 2 * GIB, 512 * MIB),  # 2 % would be too little
        (GIB, GIB // 5, GIB // 4),  # 512 MiB would be half of the disk
    ],
)
def test_the_limits_are_shares_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total: int, limit: int, floor: int
) -> None:
    """The limit is 20 % of the disk, at most 20 GiB; the floor is 2 %, at least 512 MiB, but at most a quarter."""
    monkeypatch.setattr(disk, "_directory", lambda _: tmp_path)
    monkeypatch.setattr("scope_server.store.retention.disk.shutil.disk_usage", lambda _: Usage(total, 0, floor))
    looked = Disk()
    looked.look(cast("Any", None))
    assert (looked.limit_bytes, looked.floor_bytes) == (limit, floor)
    assert not looked.short and looked.shortage() == ""
    monkeypatch.setattr("scope_server.store.retention.disk.shutil.disk_usage", lambda _: Usage(total, 0, floor - 1))
    assert looked.short and f"floor {floor >> 20} MiB" in looked.shortage()
    given = Disk(7, 11)
    given.look(cast("Any", None))
    assert (given.limit_bytes, given.floor_bytes) == (11, 7)
