"""The forms in which a fleet may have its Redis, all real: one server, one with TLS, Sentinel, and a Cluster."""

import subprocess
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import redis
from redis.cluster import ClusterNode
from tests.certificate import self_signed
from tests.integration.server.redis_server import RedisServer
from tests.ports import free_port

from scope_server.redis import keys
from scope_server.redis.address import Address, address

_SERVICE = "fleet"
_PASSWORD = "of-the-sentinel"
_PATIENCE_MS = {"down-after-milliseconds": 1000, "failover-timeout": 10_000}  # of Sentinel
_CLUSTER_NODES = 6  # half of them are masters


class Form(Protocol):
    """A Redis in one of its forms."""

    @property
    @abstractmethod
    def at(self) -> Address:
        """The setting of a server, read."""

    @property
    @abstractmethod
    def client(self) -> "redis.Redis":
        """A client of the test's own, of the node that has the fleet's keys."""

    @abstractmethod
    def flush(self) -> None:
        """Takes its data away."""


class Several:
    """Nodes of which one has the fleet's keys, and another takes over from it.

    Args:
        at: the setting of a server, read.
        nodes: by their ports.
        find: returns the port of the node that has the keys.
    """

    def __init__(self, at: Address, nodes: dict[int, RedisServer], find: Callable[[], int]) -> None:
        self.at = at
        self._nodes, self._find = nodes, find

    @property
    def client(self) -> "redis.Redis":
        """See Form."""
        return self._nodes[self._find()].client

    def flush(self) -> None:
        """See Form."""
        with self.client as client:
            client.flushall()

    def lose(self) -> None:
        """Kills the node that has the keys, for good."""
        self._nodes[self._find()].kill()


@contextmanager
def _one(folder: Path) -> Iterator[RedisServer]:
    with RedisServer(folder) as started:
        yield started


@contextmanager
def _tls(folder: Path) -> Iterator[RedisServer]:
    port, (certificate, key) = free_port(), self_signed(folder, "IP:127.0.0.1")
    url = f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={certificate}"
    with RedisServer(folder / "redis", _with_tls(port, certificate, key), url) as started:
        yield started


@contextmanager
def _sentinel(folder: Path) -> Iterator[Several]:
    """A master, its replica, and a Sentinel, all with TLS; the Sentinel has a password, which the others lack."""
    certificate, key = self_signed(folder, "IP:127.0.0.1")
    watches, first, second = free_port(), free_port(), free_port()
    with ExitStack() as stack:

        def start(port: int, *lines: str, **more: Any) -> RedisServer:
            said = [*_with_tls(port, certificate, key), "tls-replication yes", *lines]
            return stack.enter_context(RedisServer(folder / str(port), said, **more))

        quick = "repl-diskless-sync-delay 0"
        nodes = {first: start(first, quick), second: start(second, quick, f"replicaof 127.0.0.1 {first}")}
        _wait(lambda: nodes[second].client.info("replication")["master_link_status"] == "up")
        told = [f"sentinel monitor {_SERVICE} 127.0.0.1 {first} 1"]
        told += [f"sentinel {what} {_SERVICE} {ms}" for what, ms in _PATIENCE_MS.items()]
        sentinel = start(watches, *told, flags=("--sentinel",), password=_PASSWORD)

        def find() -> int:
            with sentinel.client as client:
                found: Any = client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", _SERVICE)
            return int(found[1])

        _wait(lambda: sentinel.client.execute_command("SENTINEL REPLICAS", _SERVICE))
        at = address(f"rediss+sentinel://127.0.0.1:{watches}/{_SERVICE}?ssl_ca_certs={certificate}")
        yield Several(replace(at, sentinel_password=_PASSWORD), nodes, find)


@contextmanager
def _cluster(folder: Path) -> Iterator[Several]:
    """Three masters, and a replica of each, all with TLS."""
    certificate, key = self_signed(folder, "IP:127.0.0.1")
    ports = [free_port() for _ in range(_CLUSTER_NODES)]
    buses = [free_port() for _ in ports]
    lines = ["tls-cluster yes", "tls-replication yes", "repl-diskless-sync-delay 0"]
    lines += ["cluster-enabled yes", "cluster-node-timeout 2000"]
    with ExitStack() as stack:
        nodes = {
            port: stack.enter_context(
                RedisServer(folder / str(port), [*_with_tls(port, certificate, key), *lines, f"cluster-port {bus}"])
            )
            for port, bus in zip(ports, buses, strict=True)
        }
        hosts = [f"127.0.0.1:{port}@{bus}" for port, bus in zip(ports, buses, strict=True)]
        made = ["redis-cli", "--tls", "--cacert", str(certificate), "--cluster", "create", *hosts]
        made += ["--cluster-replicas", "1", "--cluster-yes"]
        told = subprocess.run(made, capture_output=True, text=True, timeout=120)
        assert told.returncode == 0, told.stdout + told.stderr
        seeds = [ClusterNode("127.0.0.1", port) for port in ports]

        def find() -> int:
            with redis.RedisCluster(startup_nodes=seeds, ssl=True, ssl_ca_certs=str(certificate)) as client:
                return int(client.get_node_from_key(keys.BYTES).port)

        _wait(lambda: all(map(_is_whole, nodes.values())))
        some = ",".join(f"127.0.0.1:{port}" for port in ports[:2])
        yield Several(address(f"rediss+cluster://{some}?ssl_ca_certs={certificate}"), nodes, find)


FORMS: dict[str, Callable[[Path], AbstractContextManager[Form]]] = {
    "one": _one,
    "tls": _tls,
    "sentinel": _sentinel,
    "cluster": _cluster,
}


def _with_tls(port: int, certificate: Path, key: Path) -> list[str]:
    files = [f"tls-cert-file {certificate}", f"tls-key-file {key}", f"tls-ca-cert-file {certificate}"]
    return [f"tls-port {port}", "tls-auth-clients no", *files]


def _is_whole(node: RedisServer) -> bool:
    with node.client as client:
        found: Any = client.cluster("INFO")
    return bool(found["cluster_state"] == "ok")


def _wait(true: Callable[[], Any]) -> None:
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)
