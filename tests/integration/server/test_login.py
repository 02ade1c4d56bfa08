"""The API over HTTPS, and `scope login`."""

import asyncio
import json
import os
import pty
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.integration.server.running import Server, until

from scope_server.identity.authority import Authority
from scope_wire.https import calling
from scope_wire.identity import SERVER_NAME
from scope_wire.join_token import fingerprint_of
from scope_wire.keys import pem_of

StartServer = Callable[..., Any]
OTHER = "SHA256:" + 43 * "A"


@pytest.fixture
async def server(start_server: StartServer) -> AsyncIterator[Server]:
    """A server that other machines reach."""
    async with start_server(prepared=False, http="0.0.0.0:0") as started:
        token = started.token.read_text().strip()
        await until(lambda: _asked(started, "https", trusting(started), token), lambda status: status == 200)
        yield started


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The configuration directory of the user who logs in."""
    return tmp_path / "home"


def url_of(server: Server) -> str:
    return f"https://127.0.0.1:{server.http.rpartition(':')[2]}"


def _environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCOPE_")}
    return {**kept, "XDG_CONFIG_HOME": str(home), "HOME": str(home)}


async def scope(home: Path, *words: str) -> tuple[int | None, str, str]:
    """Runs a command without a terminal; returns status, output and errors."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scope_cli.main", *words),
        env=_environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, said = await process.communicate()
    return process.returncode, out.decode(), said.decode()


def trusting(server: Server) -> ssl.SSLContext:
    """For a client that trusts the server's authority."""
    return calling(pem_of(server.authority.certificate).decode())


async def _asked(server: Server, scheme: str, context: ssl.SSLContext | None, token: str = "") -> int:
    """The status of a request with this token."""
    address = f"{scheme}://127.0.0.1:{server.http.rpartition(':')[2]}/api/v1/nodes"
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
        given: dict[str, Any] = {"ssl": context, "server_hostname": SERVER_NAME} if context else {}
        async with session.get(address, **given) as answer:
            return answer.status


async def test_others_reach_it_by_tls_1_3_only(server: Server) -> None:
    """Off loopback, the API is served with TLS 1.3, by a certificate of the authority; there is no plain text."""
    assert await _asked(server, "https", trusting(server)) == 401
    with pytest.raises(aiohttp.ClientError):
        await _asked(server, "http", None)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(aiohttp.ClientError):
        await _asked(server, "https", old)


async def test_a_login_lasts(server: Server, home: Path) -> None:
    """With the right fingerprint and token, all later commands ask this server, until a logout."""
    right = fingerprint_of(server.authority.certificate)
    words = ("login", url_of(server), "--fingerprint", right, "--token-file", str(server.token))
    status, said, _ = await scope(home, *words)
    assert status == 0
    assert said == f"commands now ask {url_of(server)}; `scope logout` ends this\n"
    assert await scope(home, "nodes", "--json") == (0, "[]\n", "")
    assert await scope(home, "admin", "fingerprint") == (0, f"{right}\n", "")
    assert (await scope(home, "logout"))[:2] == (0, "logged out\n")
    assert (await scope(home, "nodes", "--json"))[0] == 1


async def test_a_wrong_fingerprint_or_token_keeps_nothing(server: Server, home: Path, tmp_path: Path) -> None:
    """What is not trusted, or not accepted, is refused with the reason, and nothing is kept."""
    right, url = fingerprint_of(server.authority.certificate), url_of(server)
    token = tmp_path / "another"
    token.write_text("0123456789abcdef")
    token.chmod(0o600)
    for words, said in (
        ((url, "--fingerprint", OTHER, "--token-file", str(server.token)), f"the fingerprint {right}, not {OTHER}"),
        ((url, "--token-file", str(server.token)), f"has the fingerprint {right}; give it as --fingerprint"),
        ((url, "--fingerprint", right), "give the token as --token-file"),
        ((url, "--fingerprint", right, "--token-file", str(token)), "the token is missing or wrong"),
        ((url.replace("https", "http"),), "is not https://HOST:PORT"),
        ((f"{url}/api",), "is not https://HOST:PORT"),
        (("https://127.0.0.1:1",), "no server answers at https://127.0.0.1:1"),
    ):
        status, out, heard = await scope(home, "login", *words)
        assert (status, out) != (0, ""), words
        assert said in heard
        assert heard.count("\n") == 1
    assert not home.exists() or not list(home.rglob("login.json"))


async def test_the_fingerprint_is_asked_on_a_terminal(server: Server, home: Path) -> None:
    """On a terminal, the fingerprint is shown and the token asked, and not echoed; only `yes` goes on."""
    token = server.token.read_text()
    for answers, ends in (("no\n", "not logged in"), (f"yes\n{token}", "commands now ask")):
        screen = await asyncio.to_thread(_on_a_terminal, home, answers, "login", url_of(server))
        assert fingerprint_of(server.authority.certificate) in screen
        assert ends in screen
        assert token.strip() not in screen
    assert (await scope(home, "nodes", "--json"))[0] == 0


def _on_a_terminal(home: Path, answers: str, *words: str) -> str:
    """Runs a command on a terminal, gives each answer when it is asked for, and returns what the terminal showed."""
    child, terminal = pty.fork()
    if not child:
        os.execve(sys.executable, [sys.executable, "-m", "scope_cli.main", *words], _environment(home))
    shown, left = b"", answers.splitlines(keepends=True)
    try:
        while read := os.read(terminal, 4096):
            shown += read
            if left and (b"type yes" in shown if len(left) == len(answers.splitlines()) else b"Token: " in shown):
                os.write(terminal, left.pop(0).encode())
    except OSError:  # the command has ended
        pass
    os.close(terminal)
    os.waitpid(child, 0)
    return shown.decode()


async def test_another_server_in_its_place_is_refused(server: Server, home: Path, tmp_path: Path) -> None:
    """A server of another authority than the login's gets no token, at the same address or not."""
    right, url = fingerprint_of(server.authority.certificate), url_of(server)
    words = ("login", url, "--fingerprint", right, "--token-file", str(server.token))
    assert (await scope(home, *words))[0] == 0
    file = home / "scope" / "login.json"
    other = pem_of(Authority(tmp_path / "other").certificate).decode()
    file.write_text(json.dumps(json.loads(file.read_text()) | {"authority": other}))
    status, _, said = await scope(home, "nodes")
    assert status == 1
    assert said.startswith(f"scope: {url} shows a certificate of another authority than expected")
