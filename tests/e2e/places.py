"""Two machines on this host: network namespaces with a link between them, and a server in the first one."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.delayed_link import ip
from tests.e2e.wire import Wire

from scope_server.store.postgres import PrivatePostgres

SERVER, MACHINE = "10.77.0.1", "10.77.0.2"
DELAY_S = 0.02  # from another city
PATIENCE_S = 240.0
SCOPE = (sys.executable, "-m", "scope_cli.main")


@dataclass(frozen=True)
class Place:
    """A network namespace, and the files of who lives there."""

    name: str
    state: Path

    def command(self, *words: str) -> list[str]:
        """A command in the namespace; it has this host's other namespaces, as BPF and tracing need them."""
        return ["nsenter", f"--net=/run/netns/{self.name}", *words]

    def scope(self, *words: str, says: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs a `scope` command to its end, with this as its input."""
        return subprocess.run(
            self.command(*SCOPE, *words),
            env=self.environment | environment,
            input=says,
            capture_output=True,
            text=True,
        )

    def admin(self, *words: str, says: str = "") -> str:
        """Runs a `scope` command for the installation here; returns what it printed, or nothing if it failed."""
        return answer(self.scope(*words, says=says, SCOPE_STATE=str(self.state)))

    @property
    def environment(self) -> dict[str, str]:
        """Of somebody whose home is here."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SCOPE_")}
        return {**kept, "HOME": str(self.state), "XDG_CONFIG_HOME": str(self.state / "config")}

    def begin(self, cleanup: ExitStack, *words: str, **environment: str) -> None:
        """Runs a daemon until `cleanup`; its output goes to a log."""
        with (self.state / "log").open("ab") as log:
            daemon = subprocess.Popen(
                self.command(*SCOPE, *words, "--state-dir", str(self.state)),
                env=self.environment | environment,
                stdout=log,
                stderr=log,
            )
        cleanup.callback(daemon.wait)
        cleanup.callback(daemon.terminate)

    def eventually(self, ask: Callable[[], Any], what: str) -> Any:
        """The first true answer."""
        end = time.monotonic() + PATIENCE_S
        while not (found := ask()):
            assert time.monotonic() < end, f"waited in vain until {what}: {(self.state / 'log').read_text()[-3000:]}"
            time.sleep(0.2)
        return found


def answer(ran: subprocess.CompletedProcess[str]) -> str:
    """What a command printed; nothing if it failed."""
    return "" if ran.returncode else ran.stdout.strip()


def told(ran: subprocess.CompletedProcess[str]) -> str:
    """What a command printed that must not fail."""
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@contextmanager
def two_places(folder: Path, delay_s: float = DELAY_S) -> Iterator[tuple[Place, Place, Wire]]:
    """The server's and the machine's, and the link between them, with the time that a packet takes one way."""
    with ExitStack() as cleanup:
        made = []
        for number in range(2):
            place = Place(f"scope-{os.getpid()}-{number}", folder / str(number))
            place.state.mkdir()
            ip("netns", "add", place.name)
            cleanup.callback(ip, "netns", "delete", place.name)
            made.append(place)
        ends = (made[0].name, SERVER), (made[1].name, MACHINE)
        yield made[0], made[1], cleanup.enter_context(Wire.between(*ends, delay_s))


@contextmanager
def server_in(place: Place) -> Iterator[str]:
    """Runs a server, for HTTPS and machines, with a database of its own; yields a token to join with."""
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="scope", dir="/dev/shm")))
        database = cleanup.enter_context(PrivatePostgres(folder / "pg", {"fsync": "off"}))
        cleanup.callback(database.stop, immediate=True)
        given = [f"--{name}={SERVER}:{port}" for name, port in (("http", 8470), ("ingest", 8471), ("enrol", 8474))]
        place.begin(cleanup, "server", "--database", database.conninfo(), *given)
        yield place.eventually(lambda: place.admin("admin", "join-token"), "there is a token")
