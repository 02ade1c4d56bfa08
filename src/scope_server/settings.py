"""The server's settings."""

import re
from dataclasses import dataclass, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated

from scope_server.errors import InvalidSettings
from scope_server.exports.influxdb.address import FORMS as INFLUXDB_FORMS
from scope_server.exports.influxdb.address import influxdb_address
from scope_server.exports.otlp.address import FORMS as OTLP_FORMS
from scope_server.exports.otlp.address import otlp_address
from scope_server.redis.address import FORMS as REDIS_FORMS
from scope_server.redis.address import Address, address
from scope_server.redis.address import without_password as without_redis_password
from scope_server.store.connection_string import (
    EXAMPLE,
    connection_string,
    noticing_silence,
    with_password,
    without_password,
)
from scope_wire.endpoint import Endpoint, host_names
from scope_wire.errors import InvalidSetting
from scope_wire.secret import read_secret
from scope_wire.setting import Setting, above_zero, at_least, check_all, one_of

_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]+)?|https?://\[[0-9a-f:]+\](:[0-9]+)?")
INVITED, ANYBODY = "invited", "anybody"  # who may register
ALL, RECEIVE, WRITE, API = "all", "receive", "write", "api"  # what a server does

BLOCKS, HYPERTABLES = "blocks", "hypertables"  # layouts


def _origins(given: tuple[str, ...], name: str) -> None:
    for text in given:
        if not _ORIGIN.fullmatch(text):
            raise InvalidSetting(f"{name}: '{text}' is no origin; write it like https://portal.example.org")


def _two_ports(given: tuple[int, ...], name: str) -> None:
    if given and (len(given) != 2 or not all(0 < port < 1 << 16 for port in given)):
        raise InvalidSetting(f"{name}: give two ports from 1 to 65535, that of ingest and that of enrol")


def _networks(given: tuple[str, ...], name: str) -> None:
    for text in given:
        try:
            ip_network(text)
        except ValueError as error:
            raise InvalidSetting(f"{name}: {error}; write it like 10.1.2.3 or 10.1.0.0/16") from None


def _connection_strings(given: tuple[str, ...], name: str) -> None:
    for text in given:
        connection_string(text, name)


@dataclass(frozen=True)
class Settings:
    """The server's addresses, database and limits.

    Raises:
        InvalidSettings: a value is not allowed.
    """

    database: Annotated[
        str,
        Setting(
            "the PostgreSQL database, as a libpq connection string; leave a password to database_password_file",
            unit="CONNINFO",
            example=EXAMPLE,
            check=connection_string,
            public=without_password,
        ),
    ]
    socket: Annotated[
        Path,
        Setting(
            "Unix socket at which the API also listens, for root and the user of the server, who need no login there",
            within_state="api.sock",
        ),
    ]
    authority: Annotated[
        Path,
        Setting(
            "directory of the certificate authority: key.pem has its root's key and certificate, and is made if there "
            "is none; certificate.pem is for those who only want to know the servers. Servers of one fleet share it",
            within_state="authority",
        ),
    ]
    state_dir: Annotated[Path, Setting("directory for data that outlives the server; made if it is missing")]
    ca_cert: Annotated[
        Path | None,
        Setting(
            "certificate of an authority from outside, a root in PEM; goes with ca_key",
            unset="the server's own, in `authority`",
            example=Path("/etc/scope/ca.pem"),
        ),
    ] = None
    ca_key: Annotated[
        Path | None,
        Setting(
            "key of ca_cert, ECDSA in PEM, mode 0600",
            unset="the server's own, in `authority`",
            example=Path("/etc/scope/ca-key.pem"),
        ),
    ] = None
    advertise: Annotated[
        tuple[str, ...],
        Setting("names and addresses of this server as machines reach it; its certificate has them", check=host_names),
    ] = ()
    advertise_ports: Annotated[
        tuple[int, ...],
        Setting(
            "ports at which machines reach ingest and enrol, in this order, if nginx has others in front of them",
            check=_two_ports,
        ),
    ] = ()
    database_password_file: Annotated[
        Path | None,
        Setting(
            "file with the database's password and nothing else; read when the server starts",
            unset="no password, or libpq's own files and variables, such as ~/.pgpass",
            example=Path("/etc/scope/database-password"),
        ),
    ] = None
    direct_database: Annotated[
        str | None,
        Setting(
            "the same database, without pgbouncer between; needed if `database` leads through one that pools by "
            "transaction, since writers and other long connections go here; has the same password",
            unit="CONNINFO",
            unset="`database`, which leads there directly",
            example=EXAMPLE,
            check=connection_string,
            public=without_password,
        ),
    ] = None
    read_database: Annotated[
        tuple[str, ...],
        Setting(
            "streaming replicas of the database, as libpq connection strings, which answer queries of recorded rows; "
            "the password in database_password_file is theirs, too",
            unit="CONNINFO",
            check=_connection_strings,
            public=lambda given: tuple(map(without_password, given)),
        ),
    ] = ()
    read_age_s: Annotated[
        float,
        Setting(
            "how old the data of a replica may be; while they are older, the database itself answers",
            unit="s",
            check=above_zero,
        ),
    ] = 10.0
    http: Annotated[
        str,
        Setting(
            "the REST API listens here, on loopback in plain text, elsewhere with HTTPS; port 0: any",
            unit="HOST:PORT",
            check=Endpoint.parse,
        ),
    ] = "127.0.0.1:8470"
    ingest: Annotated[
        str, Setting("the gRPC service for agents listens here; port 0: any", unit="HOST:PORT", check=Endpoint.parse)
    ] = "127.0.0.1:8471"
    enrol: Annotated[
        str,
        Setting(
            "the gRPC service for agents that join listens here; port 0: any", unit="HOST:PORT", check=Endpoint.parse
        ),
    ] = "127.0.0.1:8474"
    grace: Annotated[
        int,
        Setting(
            "how long after the end of its certificate a machine may renew it; later, it needs a new token",
            unit="days",
            check=at_least(0),
        ),
    ] = 90
    writers: Annotated[
        int, Setting("number of threads that write to the database, each with its own connection", check=above_zero)
    ] = 2
    backlog_bytes: Annotated[
        int,
        Setting(
            "decompressed size of waiting records at which the server stops reading from agents",
            unit="bytes",
            check=above_zero,
        ),
    ] = 256 << 20
    quarantine_bytes: Annotated[
        int, Setting("disk space for kept records that could not be stored", unit="bytes", check=at_least(0))
    ] = 256 << 20
    keep_days: Annotated[int, Setting("how many days of recorded data are kept", unit="days", check=above_zero)] = 30
    keep_bytes: Annotated[
        int | None,
        Setting(
            "disk space for recorded data and the write-ahead log; beyond it the oldest days are dropped",
            unit="bytes",
            unset="20 % of the database's disk, at most 20G",
            example=50 << 30,
            check=above_zero,
        ),
    ] = None
    free_floor: Annotated[
        int | None,
        Setting(
            "while less is free on the database's disk, nothing is stored and agents keep what they record",
            unit="bytes",
            unset="512M, or 2 % of the disk if that is more",
            example=1 << 30,
            check=at_least(0),
        ),
    ] = None
    layout: Annotated[
        str,
        Setting(
            f"how rows lie in the database: in {BLOCKS}, or in {HYPERTABLES} of TimescaleDB; a database keeps its own",
            unit="LAYOUT",
            check=one_of(BLOCKS, HYPERTABLES),
        ),
    ] = BLOCKS
    redis: Annotated[
        str | None,
        Setting(
            f"the Redis that the servers of a fleet share: {REDIS_FORMS}; leave a password to redis_password_file",
            unit="URL",
            unset="this server is alone, and needs none",
            example="redis://redis.example.org:6379/0",
            check=address,
            public=without_redis_password,
        ),
    ] = None
    redis_password_file: Annotated[
        Path | None,
        Setting(
            "file with the password for Redis and nothing else; read when the server starts",
            unset="the one in `redis`, or none",
            example=Path("/etc/scope/redis-password"),
        ),
    ] = None
    sentinel_password_file: Annotated[
        Path | None,
        Setting(
            "file with the password for the Sentinels of Redis and nothing else; read when the server starts",
            unset="they have none",
            example=Path("/etc/scope/sentinel-password"),
        ),
    ] = None
    redis_bytes: Annotated[
        int,
        Setting(
            "size of the records in Redis that are not stored yet, of all servers; beyond it they stop reading from "
            "agents",
            unit="bytes",
            check=above_zero,
        ),
    ] = 256 << 20
    role: Annotated[
        str,
        Setting(
            f"what this server does besides answering the API: {RECEIVE} from agents, {WRITE} to the database, "
            f"neither ({API}), or both ({ALL}); all but {ALL} need redis",
            unit="ROLE",
            check=one_of(ALL, RECEIVE, WRITE, API),
        ),
    ] = ALL
    registration: Annotated[
        str,
        Setting(
            f"who may register: {INVITED}, or {ANYBODY}, as a viewer",
            unit="WHO",
            example=ANYBODY,
            check=one_of(INVITED, ANYBODY),
        ),
    ] = INVITED
    cors_origins: Annotated[
        tuple[str, ...],
        Setting(
            "origins of other pages that may call the API, such as https://portal.example.org; they show tokens, and "
            "cookies never count there",
            check=_origins,
        ),
    ] = ()
    proxies: Annotated[
        tuple[str, ...],
        Setting(
            "addresses or networks of reverse proxies before the API: who asks, and whether by TLS, is what they say "
            "in X-Forwarded-For and X-Forwarded-Proto",
            check=_networks,
        ),
    ] = ()
    otlp: Annotated[
        str | None,
        Setting(
            f"an OpenTelemetry collector, to which metrics and spans are pushed; {OTLP_FORMS}",
            unit="URL",
            unset="nothing is pushed",
            example="grpcs://collector.example.org:4317",
            check=otlp_address,
        ),
    ] = None
    otlp_ca_cert: Annotated[
        Path | None,
        Setting(
            "certificate of the authority of the collector, in PEM",
            unset="the authorities that the system trusts",
            example=Path("/etc/scope/collector-ca.pem"),
        ),
    ] = None
    otlp_headers_file: Annotated[
        Path | None,
        Setting(
            "file with headers for the collector, such as `Authorization: Bearer SECRET`, a line each; read when the "
            "server starts",
            unset="none",
            example=Path("/etc/scope/otlp-headers"),
        ),
    ] = None
    influxdb: Annotated[
        str | None,
        Setting(
            f"an InfluxDB, to which totals per minute and metrics are pushed; {INFLUXDB_FORMS}",
            unit="URL",
            unset="nothing is pushed",
            example="https://influxdb.example.org:8086/api/v2/write?org=lab&bucket=scope",
            check=influxdb_address,
        ),
    ] = None
    influxdb_ca_cert: Annotated[
        Path | None,
        Setting(
            "certificate of the authority of InfluxDB, in PEM",
            unset="the authorities that the system trusts",
            example=Path("/etc/scope/influxdb-ca.pem"),
        ),
    ] = None
    influxdb_token_file: Annotated[
        Path | None,
        Setting(
            "file with the token for InfluxDB 2, or USER:PASSWORD for InfluxDB 1, and nothing else; read when the "
            "server starts",
            unset="none",
            example=Path("/etc/scope/influxdb-token"),
        ),
    ] = None
    export_series: Annotated[
        int,
        Setting(
            "how many different labels of a stream are pushed while the server runs; all others are added up as other",
            check=above_zero,
        ),
    ] = 1000
    connections: Annotated[int, Setting("maximum number of database connections for queries", check=above_zero)] = 8
    sessions: Annotated[int, Setting("maximum number of connected agents", check=above_zero)] = 5000
    statement_timeout_s: Annotated[
        float, Setting("how long a query of the API may take", unit="s", check=above_zero)
    ] = 20.0
    stop_deadline_s: Annotated[
        float, Setting("how long a stop waits for running writes", unit="s", check=above_zero)
    ] = 10.0

    def __post_init__(self) -> None:
        try:
            check_all(self)
        except ValueError as error:
            raise InvalidSettings(str(error)) from None
        if self.redis is None and self.role != ALL:
            raise InvalidSettings(f"role: a server that is alone does all; {self.role} needs redis")
        if (self.ca_cert is None) != (self.ca_key is None):
            raise InvalidSettings("ca_cert: goes with ca_key; give both, or neither")
        for name, of in (("otlp", self.otlp), ("influxdb", self.influxdb)):
            given = [
                one
                for one in (f"{name}_ca_cert", f"{name}_headers_file", f"{name}_token_file")
                if getattr(self, one, None) is not None
            ]
            if given and of is None:
                raise InvalidSettings(f"{given[0]}: goes with {name}, which is not given")

    @property
    def receives(self) -> bool:
        """Whether agents connect to this server."""
        return self.role in (ALL, RECEIVE)

    @property
    def writes(self) -> bool:
        """Whether this server writes what agents send."""
        return self.role in (ALL, WRITE)

    @property
    def policy(self) -> dict[str, int | None]:
        """What is kept in the database, by the settings' names; None: the default."""
        return {"keep_days": self.keep_days, "keep_bytes": self.keep_bytes, "free_floor": self.free_floor}

    @property
    def given_authority(self) -> tuple[Path, Path] | None:
        """The files of an authority from outside: certificate and key."""
        return (self.ca_cert, self.ca_key) if self.ca_cert and self.ca_key else None

    def conninfo(self) -> str:
        """The connection string, with the password if there is a file of it.

        Raises:
            InvalidSettings: the file cannot be read, or has no password.
        """
        return self._complete(self.database)

    def direct(self) -> str:
        """The connection string for connections that are kept, or that prepare, listen or lock.

        Raises:
            InvalidSettings: as for `conninfo`.
        """
        return self._complete(self.direct_database or self.database)

    def replicas(self) -> list[str]:
        """The same of the replicas.

        Raises:
            InvalidSettings: as for `conninfo`.
        """
        return [self._complete(text) for text in self.read_database]

    def redis_address(self) -> Address | None:
        """Where Redis is, with the passwords of which there are files; None: this server is alone.

        Raises:
            InvalidSettings: a file cannot be read, or has no password; or a password is for Sentinels, and there are
                none.
        """
        if self.redis is None:
            return None
        at = address(self.redis)
        if self.redis_password_file is not None:
            at = replace(at, password=self._secret("redis_password_file"))
        if self.sentinel_password_file is None:
            return at
        if at.kind != "sentinel":
            raise InvalidSettings("sentinel_password_file: `redis` has no Sentinels; leave it out")
        return replace(at, sentinel_password=self._secret("sentinel_password_file"))

    def influxdb_secret(self) -> str | None:
        """The token or password for InfluxDB; None: there is none.

        Raises:
            InvalidSettings: the file cannot be read, or has no secret.
        """
        return None if self.influxdb_token_file is None else self._secret("influxdb_token_file")

    def _complete(self, conninfo: str) -> str:
        if self.database_password_file is not None:
            conninfo = with_password(conninfo, self._secret("database_password_file"))
        return noticing_silence(conninfo)

    def _secret(self, name: str) -> str:
        try:
            return read_secret(getattr(self, name), name)
        except InvalidSetting as error:
            raise InvalidSettings(str(error)) from None
