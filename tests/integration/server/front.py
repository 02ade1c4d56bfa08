"""The real nginx with deploy/nginx, in front of two servers."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from tests.certificate import self_signed
from tests.integration.server.program import Program
from tests.ports import free_port

_CONFIGURATION = Path(__file__).parents[3] / "deploy/nginx"
_PARTS = ("nginx.conf", "scope/agents.conf", "scope/people.conf", "scope/beside/containers.conf")


@dataclass(frozen=True)
class Addresses:
    """Where a server listens, each as host:port."""

    http: str
    ingest: str
    enrol: str


class Front(Program):
    """nginx with the configuration, in which names and ports are replaced; a context manager.

    Args:
        folder: for its files.
        servers: in front of which it is.
        authority: the servers' certificate, in PEM.
        beside: more that is replaced, of what stands beside the servers.

    Attributes:
        people: its port for people.
        ingest, enrol: its addresses for agents, as host:port.
        certificate: the file with what it shows to people.
    """

    def __init__(
        self,
        folder: Path,
        servers: tuple[Addresses, Addresses],
        authority: bytes,
        beside: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.log = folder / "nginx.log"
        self.people, ingest, enrol = free_port(), free_port(), free_port()
        self.ingest, self.enrol = f"127.0.0.1:{ingest}", f"127.0.0.1:{enrol}"
        self.certificate, key = self_signed(folder, "DNS:localhost,DNS:server.scope.internal")  # for `scope`, too
        (folder / "authority.pem").write_bytes(authority)
        texts = {part: (_CONFIGURATION / part).read_text() for part in _PARTS}
        for wanted, given in {
            "/tmp/": f"{folder}/",  # before folders below it come in
            "/etc/nginx/scope/": f"{folder}/scope/",
            "listen 8443": f"listen 127.0.0.1:{self.people}",
            "listen 8471": f"listen {self.ingest}",
            "listen 8474": f"listen {self.enrol}",
            "/etc/nginx/tls/certificate.pem": str(self.certificate),
            "/etc/nginx/tls/key.pem": str(key),
            "/etc/nginx/authority/certificate.pem": f"{folder}/authority.pem",
            "/dev/stdout": f"{folder}/access.log",
            "worker_processes auto": "worker_processes 1",
            **beside,
            **{
                f"server{number}:{port}": f"127.0.0.1:{address.rpartition(':')[2]}"
                for number, server in enumerate(servers, 1)
                for port, address in (("8470", server.http), ("8471", server.ingest), ("8474", server.enrol))
            },
        }.items():
            assert any(wanted in text for text in texts.values()), wanted
            texts = {part: text.replace(wanted, given) for part, text in texts.items()}
        for part, text in texts.items():
            (folder / part).parent.mkdir(parents=True, exist_ok=True)
            (folder / part).write_text(text)
        self._command = ["nginx", "-c", str(folder / "nginx.conf"), "-g", "daemon off; master_process off;"]
        checked = subprocess.run([*self._command[:3], "-t"], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.kill()

    def start(self) -> None:
        """Starts it, unless it runs."""
        if not self._process:
            with self.log.open("a") as out:
                self._process = subprocess.Popen(self._command, stdout=out, stderr=out)

    def curl(self, path: str, *options: str) -> tuple[int, str, str]:
        """Status, HTTP version and body of a person's request."""
        address = f"https://localhost:{self.people}{path}"
        command = ["curl", "--silent", "--show-error", "--http2", "--cacert", str(self.certificate), *options]
        told = subprocess.run(
            [*command, "--write-out", "\n%{http_code} %{http_version}", address], capture_output=True, text=True
        )
        assert told.returncode == 0, told.stderr + self.log.read_text()
        body, _, end = told.stdout.rpartition("\n")
        status, version = end.split()
        return int(status), version, body
