"""Fixtures: exports that are read often, certificates, and rows of requests."""

import subprocess
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest

from scope_server.exports.minutes import Minutes
from scope_server.exports.own_metrics import OwnMetrics
from scope_server.exports.spans import Spans


class Tls(NamedTuple):
    """Of a program at 127.0.0.1."""

    certificate: Path
    key: Path

    def of_server(self) -> grpc.ServerCredentials:
        return grpc.ssl_server_credentials([(self.key.read_bytes(), self.certificate.read_bytes())])


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is new is read after a moment, so that tests need not wait."""
    for source in (Minutes, Spans, OwnMetrics):
        monkeypatch.setattr(source, "every_s", 0.1)
    monkeypatch.setattr("scope_server.exports.push._LONGEST_PAUSE_S", 0.5)
    monkeypatch.setattr("scope_server.store.exports.turn._AGAIN_S", 0.3)


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    folder = tmp_path_factory.mktemp("tls")
    made = Tls(folder / "cert.pem", folder / "key.pem")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=collector"
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    subprocess.run([*command.split(), *names, "-keyout", made.key, "-out", made.certificate], check=True)
    return made
