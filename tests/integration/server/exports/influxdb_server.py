"""A real InfluxDB 1 for tests."""

import base64
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

from tests.ports import free_port

_CONFIG = """
reporting-disabled = true
bind-address = "127.0.0.1:{rpc}"
[meta]
  dir = "{folder}/meta"
[data]
  dir = "{folder}/data"
  wal-dir = "{folder}/wal"
[http]
  bind-address = "127.0.0.1:{port}"
  auth-enabled = true
  log-enabled = false
[monitor]
  store-enabled = false
"""
USER, PASSWORD = "scope", "s3cret: one"


class InfluxServer:
    """An influxd with a database `scope` and a user who may write; its data are in a folder."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self.port = folder, port
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
            # The first user is made by anybody.
            self._post(f"CREATE USER {USER} WITH PASSWORD '{PASSWORD}' WITH ALL PRIVILEGES", authorized=False)
            self._post("CREATE DATABASE scope")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """As the setting `influxdb` has it."""
        return f"http://127.0.0.1:{self.port}/write?db=scope"

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        program = shutil.which("influxd")
        assert program, "deploy/install-packages.sh test"
        config = self._folder / "influxdb.conf"
        config.write_text(_CONFIG.format(folder=self._folder, port=self.port, rpc=free_port()))
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen([program, "run", "-config", str(config)], stdout=log, stderr=log)
        end = time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ping", timeout=5):
                    return
            except OSError:
                assert time.monotonic() < end, (self._folder / "log").read_text()
                time.sleep(0.1)

    def stop(self) -> None:
        """Kills it; its data stay."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Rows of all series, tags included."""
        return [
            {**series.get("tags", {}), **dict(zip(series["columns"], values, strict=True))}
            for result in self._post(query)["results"]
            for series in result.get("series", [])
            for values in series["values"]
        ]

    def _post(self, query: str, authorized: bool = True) -> Any:
        given = urllib.parse.urlencode({"q": query, "db": "scope", "epoch": "ns"}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/query", given)
        if authorized:
            secret = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            request.add_header("Authorization", f"Basic {secret}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())
