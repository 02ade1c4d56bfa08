"""The deployed form of the stack: nginx before two servers, Redis between them, and PostgreSQL with a replica."""

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import psycopg
from tests.chaos.proxy import Proxy
from tests.chaos.world import PATIENCE_S, Part, World
from tests.integration.server.front import Addresses, Front
from tests.integration.server.redis_server import RedisServer
from tests.integration.server.running import make_token
from tests.ports import free_port

from scope_cli.access import Access
from scope_cli.client import Client
from scope_server.store.postgres import PrivatePostgres
from scope_server.store.postgres.leftovers import processes_in

_SENDS = {"wal_level": "replica", "max_wal_senders": "4", "wal_keep_size": "64MB"}
_WAITS = {"synchronous_standby_names": "*"}  # a commit is over when the replica has it, too
_ROLES = (("all", "all"), ("receive", "write"))
_ANSWER_S = 5.0
_SOCKET = ".s.PGSQL.5432"


class Deployed(World):
    """The stack of a test, deployed. The servers find the primary among both PostgreSQLs.

    Args:
        chance: chooses the servers' roles.

    Attributes:
        postgres: the primary.
        standby: its replica, until it is promoted; then the primary, too.
        ways: by what is connected: for each server, the proxies from nginx to it, and from it to Redis and to both
            PostgreSQLs; and the proxy from the replica to the primary.
    """

    ways: dict[str, list[list[Proxy]]]

    def __init__(self, folder: Path, programs: Path, chance: random.Random) -> None:
        super().__init__(folder, programs)
        self._roles = chance.choice(_ROLES)
        self.ways = {"server": [], "redis": [], "database": [], "standby": []}

    def start_primary(self) -> None:
        """See World; starts the replica, too."""
        self.postgres = self.copied(self.database_disk / "p", _SENDS | _WAITS)
        way = self._way_to(self.postgres, "follow")
        self.ways["standby"] = [[way]]
        follows = {
            "primary_conninfo": f"host={self.folder / 'follow'} port=5432 user=scope dbname=postgres",
            "wal_retrieve_retry_interval": "100ms",
        }
        self.standby = self.copied(self.disk("r", 768) / "p", _SENDS | follows)
        (self.standby.directory / "data" / "standby.signal").touch()
        self.cleanup.callback(self.standby.stop, immediate=True)
        self.standby.start()
        self.postgres.start()

    def start_servers(self) -> tuple[int, int]:
        """See World."""
        (self.folder / "redis").mkdir()
        self.redis = self.cleanup.enter_context(RedisServer(self.folder / "redis"))
        found, self.servers = [], []
        for number, role in enumerate(self._roles, 1):
            state = self.folder / f"s{number}"
            ports = {name: free_port() for name in ("http", "ingest", "enrol")}
            reached = [self._way(port) for port in ports.values()]
            self.ways["server"].append(reached)
            found.append(Addresses(*(f"localhost:{way.port}" for way in reached)))
            redis = self.folder / f"r{number}.sock"
            self.ways["redis"].append([self._way(self.redis.socket, redis)])
            hosts = [f"p{number}", f"r{number}"]
            both = zip((self.postgres, self.standby), hosts, strict=True)
            self.ways["database"].append([self._way_to(postgres, host) for postgres, host in both])
            database = f"host={','.join(str(self.folder / host) for host in hosts)} port=5432,5432"
            database += " user=scope dbname=scope target_session_attrs=read-write"
            # On all addresses, so that the API has TLS.
            words = [word for name, port in ports.items() for word in (f"--{name}", f"0.0.0.0:{port}")]
            words += ["--state-dir", str(state), "--authority", str(self.folder / "authority")]
            words += ["--database", database, "--redis", f"unix://{redis}", "--role", role, "--advertise", "localhost"]
            self.servers.append(Part("server", words, self.folder, self.library, f"server{number}"))
            self.begin(self.servers[-1])
            self.eventually((state / "api.sock").exists, "a server listens")
            own = Client(Access("http://localhost", socket=str(state / "api.sock")))
            self.eventually(lambda own=own: own.get("health"), "a server is healthy")
        authority = (self.folder / "authority" / "certificate.pem").read_bytes()
        (self.folder / "nginx").mkdir()
        self.front = self.cleanup.enter_context(Front(self.folder / "nginx", (found[0], found[1]), authority))
        self.client = self.asker(30.0)
        return int(self.front.ingest.rpartition(":")[2]), int(self.front.enrol.rpartition(":")[2])

    def _way(self, target: int | Path, listens: Path | None = None) -> Proxy:
        way = Proxy(target, listens)
        self.cleanup.callback(way.close)
        return way

    def _way_to(self, postgres: PrivatePostgres, name: str) -> Proxy:
        (self.folder / name).mkdir()
        return self._way(postgres.directory / _SOCKET, self.folder / name / _SOCKET)

    def asker(self, answer_s: float = _ANSWER_S) -> Client:
        """A client of any server, through nginx, which waits this long for an answer."""
        token, seen = make_token(self.postgres.conninfo()), self.front.certificate.read_text()
        return Client(Access(f"https://localhost:{self.front.people}", token=token, authority=seen), answer_s)

    def fail_over(self) -> None:
        """Ends the primary for good, and promotes the replica, by hand."""
        if self.postgres is self.standby:
            return
        self.postgres.stop(immediate=True)
        for pid in processes_in(self.postgres.directory / "data"):  # a process of it that is stopped would go on later
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.signal_standby(signal.SIGCONT)
        end = time.monotonic() + PATIENCE_S
        while not self._promoted():
            assert time.monotonic() < end, "the replica is not promoted"
            time.sleep(0.05)
        self.postgres = self.standby

    def _promoted(self) -> bool:
        self.start_postgres_of(self.standby)
        with (
            suppress(psycopg.OperationalError),  # it has ended, as on a full disk
            psycopg.connect(self.standby.conninfo(), autocommit=True) as connection,
        ):
            if connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,):
                return True
            # A query that waited for the promotion could be canceled by what the replica still replays.
            connection.execute("SELECT pg_promote(wait => false)")
        return False

    @property
    def databases(self) -> list[PrivatePostgres]:
        """See World."""
        return [self.postgres] if self.postgres is self.standby else [self.postgres, self.standby]

    def signal_standby(self, number: signal.Signals) -> None:
        """Sends a signal to all processes of the replica, unless it was promoted."""
        if self.postgres is not self.standby:
            for pid in processes_in(self.standby.directory / "data"):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)

    def start_postgres(self) -> None:
        """See World."""
        self.start_postgres_of(self.standby)  # without it, the primary's start would wait for its commit
        self.start_postgres_of(self.postgres)

    def repair(self) -> None:
        """See World."""
        self.redis.resume()
        if not self.redis.runs:
            self.redis.start()
        self.front.resume()
        self.front.start()
        super().repair()
