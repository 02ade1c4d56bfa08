"""The console's files: what is served at which address, and what every answer tells browsers."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.integration.server.running import Server
from yarl import URL

from scope_server.api import application
from scope_server.api.console import Console

StartServer = Callable[..., Any]
PAGE, SCRIPT = b"<!doctype html><title>SCOPE</title>", b"console.log(1)\n" * 100


@pytest.fixture(autouse=True)
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A console with a page and a script, beside a file that is none of its own."""
    folder = tmp_path / "console"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_bytes(PAGE)
    (folder / "assets" / "main-abc.js").write_bytes(SCRIPT)
    (tmp_path / "secret").write_text("secret")
    monkeypatch.setattr(application, "Console", lambda: Console(folder))
    return folder


async def _got(server: Server, path: str, **headers: str) -> tuple[int, bytes, Any]:
    async with aiohttp.ClientSession() as session:
        address = URL(f"http://{server.http}{path}", encoded=True)
        async with session.get(address, headers=headers, auto_decompress=False) as answer:
            return answer.status, await answer.read(), answer.headers


async def test_files_and_addresses_of_the_console(start_server: StartServer) -> None:
    """Named by their hash, files are kept for ever; the page is asked for again; unknown addresses are the page's."""
    async with start_server() as server:
        for path in ("/", "/nodes", "/explore/syscall?since=-1h", "/index.html", "/apiary"):
            status, body, headers = await _got(server, path)
            assert (status, body, headers["Content-Type"]) == (200, PAGE, "text/html; charset=utf-8"), path
            assert headers["Cache-Control"] == "no-cache"
        status, body, headers = await _got(server, "/assets/main-abc.js", **{"Accept-Encoding": "identity"})
        assert (status, body, headers["Cache-Control"]) == (200, SCRIPT, "public, max-age=31536000, immutable")
        status, body, headers = await _got(server, "/assets/main-abc.js", **{"Accept-Encoding": "gzip"})
        assert (headers["Content-Encoding"], len(body) < len(SCRIPT)) == ("gzip", True)
        assert (await _got(server, "/assets/main-old.js"))[0] == 404  # of the version before


async def test_no_path_leads_outside(start_server: StartServer) -> None:
    """Only the console's own files are served, whatever the path."""
    async with start_server() as server:
        for path in ("/../secret", "/%2e%2e/secret", "/assets/..%2f..%2fsecret", "//etc/passwd", "/..%5csecret"):
            status, body, _ = await _got(server, path)
            assert b"secret" not in body and b"root:" not in body, path
            assert status in (200, 404), path


async def test_every_answer_has_the_policy(start_server: StartServer) -> None:
    """Pages, answers, refusals, streams and answers to what is no request tell browsers the same policy."""
    async with start_server() as server:
        host, port = server.http.split(":")
        for path in ("/", "/assets/none.js", "/api/v1/health", "/api/v1/nodes", "/api/v1/nonsense", "/metrics"):
            _, _, headers = await _got(server, path)
            _check(headers, path)
        async with (
            aiohttp.ClientSession(headers={"Authorization": server.authorization}) as session,
            session.get(f"http://{server.http}/api/v1/live/syscall") as stream,
        ):
            _check(stream.headers, "live")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"nonsense\r\n\r\n")
        said = (await reader.read()).decode()
        writer.close()
        assert "400" in said and "Content-Security-Policy: default-src 'none'" in said


def _check(headers: Any, path: str) -> None:
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'"), path
    assert "unsafe" not in policy and "*" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff", path
    assert headers["Referrer-Policy"] == "no-referrer", path
    assert "Access-Control-Allow-Origin" not in headers, path


async def test_a_build_without_console_says_so(start_server: StartServer, built: Path) -> None:
    """Without a console, its address says how to build it, and the API works."""
    for file in built.rglob("*.*"):
        file.unlink()
    async with start_server() as server:
        status, body, _ = await _got(server, "/")
        assert (status, b"make console" in body) == (404, True)
        assert (await _got(server, "/api/v1/health"))[0] == 200
