"""Clusters of PostgreSQL whose database has the schema: copies of one below build/clusters, until `make clean`.

It is made once for all workers and later sessions, since initdb and the schema take seconds.
"""

import fcntl
import shutil
import tempfile
from pathlib import Path

from tests.cached import digest
from tests.integration.server.tables import migrated

import scope_catalogue
from scope_server import store
from scope_server.store.postgres import PrivatePostgres

_KEPT = Path(__file__).parents[1] / "build" / "clusters"
_SETTINGS = {"fsync": "off", "wal_level": "replica"}  # for copies that follow each other
# All that may change the schema; a server's start changes what is left.
_SOURCES = [Path(folder) for folder in (*store.__path__, *scope_catalogue.__path__)]


def place_cluster(directory: Path) -> None:
    """Puts a copy where a `PrivatePostgres` of this directory, which is made, finds it."""
    directory.mkdir(mode=0o700)
    shutil.copytree(_prepared(), directory / "data")


def _prepared() -> Path:
    """The data of the one that is copied."""
    sources = (file for folder in _SOURCES for file in folder.rglob("*") if file.suffix in (".py", ".sql", ".json"))
    prepared = _KEPT / digest(*sorted(sources))
    _KEPT.mkdir(parents=True, exist_ok=True)
    with (_KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the other workers wait, instead of making one, too
        if not prepared.exists():
            _make(prepared)
    return prepared


def _make(prepared: Path) -> None:
    for old in (folder for folder in _KEPT.iterdir() if folder.is_dir()):
        shutil.rmtree(old)
    with tempfile.TemporaryDirectory(prefix="scope", dir="/dev/shm") as folder:  # its path is short, as sockets need
        with PrivatePostgres(Path(folder) / "pg", _SETTINGS) as postgres:
            migrated(postgres.conninfo())
            postgres.stop()
        fresh = _KEPT / "fresh"
        shutil.copytree(Path(folder) / "pg" / "data", fresh)
        fresh.rename(prepared)
