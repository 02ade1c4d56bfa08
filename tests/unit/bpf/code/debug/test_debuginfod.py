"""Debug files from servers, which may be down, slow, or lie."""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.debuginfod_server import has_nothing, sends, serving, stripped

from scope_bpf.code.debug import debuginfod
from scope_bpf.code.debug.debuginfod import Debuginfod
from scope_bpf.code.debug.settings import Settings
from scope_bpf.code.elf import ElfFile

SOURCE = "static int inner(int a) { return a * 3; } int main(int argc, char **argv) { return inner(argc); }"
ENOUGH_S = 30


def compiled(folder: Path, *flags: str) -> tuple[str, bytes]:
    """Build id and debug file of a program."""
    path = folder / "program"
    command: list[str | Path] = ["gcc", "-g", "-Wl,--build-id", *flags, "-x", "c", "-", "-o", path]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    content = stripped(path)
    with path.open("rb", buffering=0) as file:
        return ElfFile(file).build_id, content


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    return compiled(tmp_path_factory.mktemp("build"))


class Asking:
    """A client, and what has arrived."""

    def __init__(self, settings: Settings) -> None:
        self.client = Debuginfod(settings)
        self.found: list[ElfFile] = []

    def ask(self, build_id: str) -> "Asking":
        self.client.ask(build_id, self.found.append)
        return self

    def until(self, is_so: Callable[[], object]) -> None:
        end = time.monotonic() + ENOUGH_S
        while not is_so():
            assert time.monotonic() < end, (self.client.counts, self.found)
            time.sleep(0.005)

    def answered(self) -> "Asking":
        """Waits until nothing is pending any more, or a server does not answer."""
        self.until(lambda: self.found or self.client.counts)
        return self

    def told(self) -> str:
        return "; ".join(self.client.counts)


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Callable[..., Asking]]:
    """Makes clients with a cache of their own."""
    made: list[Asking] = []

    def make(*urls: str, **settings: object) -> Asking:
        wanted = replace(Settings(urls, tmp_path / "cache"), **settings)  # type: ignore[arg-type]
        made.append(Asking(wanted))
        return made[-1]

    yield make
    for one in made:
        one.client.close()


def test_a_file_is_fetched_once(asking: Callable[..., Asking], build: tuple[str, bytes]) -> None:
    """It arrives with its symbols; the next client finds it in the cache."""
    build_id, content = build
    with serving(sends(content)) as (url, asked):
        for _ in range(2):
            (found,) = asking(url).ask(build_id).answered().found
            assert found.symbols
            assert {"main", "inner"} <= found.symbols.addresses(["main", "inner"]).keys()
        assert asked == [f"/buildid/{build_id}/debuginfo"]


def test_what_no_server_has_is_noted(asking: Callable[..., Asking], build: tuple[str, bytes], tmp_path: Path) -> None:
    """For some minutes, no server is asked again; then it is."""
    build_id, content = build
    with serving(has_nothing) as (url, asked), serving(has_nothing) as (other, asked_too):
        for _ in range(2):
            assert asking(url, other).ask(build_id).answered().told() == "no server has the file"
        assert len(asked) == len(asked_too) == 1
    noted = tmp_path / "cache" / build_id / "debuginfo"
    os.utime(noted, (time.time() - 601,) * 2)
    with serving(sends(content)) as (url, _):
        assert asking(url).ask(build_id).answered().found


def test_the_next_server_is_asked(asking: Callable[..., Asking], build: tuple[str, bytes]) -> None:
    """If the first one does not know the file, is down, or gives something else."""
    build_id, content = build
    with (
        serving(sends(content)) as (good, _),
        serving(has_nothing) as (ignorant, _),
        serving(sends(b"\x7fELF, but not really")) as (bad, _),
    ):
        found = asking(ignorant, "http://127.0.0.1:1", bad, good).ask(build_id)
        found.until(lambda: found.found)
        assert "server not reachable: http://127.0.0.1:1: " in found.told()
        assert f"answer refused: {bad}: " in found.told()


def test_another_build_is_refused(asking: Callable[..., Asking], build: tuple[str, bytes], tmp_path: Path) -> None:
    """Its names would be wrong. It is not kept, nor is it noted that there is no file."""
    _, other = compiled(tmp_path, "-O2", "-DOTHER")
    with serving(sends(other)) as (url, _):
        refused = asking(url).ask(build[0]).answered()
    assert refused.told() == f"answer refused: {url}: the build id is that of another file"
    assert not refused.found
    assert not list((tmp_path / "cache" / build[0]).iterdir())


def endless(begin: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(begin)
        while True:
            request.wfile.write(bytes(1 << 16))

    return answer


def test_an_endless_file_is_refused(asking: Callable[..., Asking], build: tuple[str, bytes], tmp_path: Path) -> None:
    """At the limit; and what does not begin as an ELF file does, at once."""
    with serving(endless(b"\x7fELF")) as (url, _), serving(endless(b"<html>")) as (other, _):
        refused = asking(url, other, largest=3_000_000).ask(build[0])
        refused.until(lambda: len(refused.client.counts) == 2)
    told = {f"answer refused: {url}: larger than 3,000,000 bytes", f"answer refused: {other}: no ELF file"}
    assert set(refused.client.counts) == told
    assert not list((tmp_path / "cache" / build[0]).iterdir())


def test_an_announced_size_is_believed(asking: Callable[..., Asking], build: tuple[str, bytes]) -> None:
    """If it is too large, nothing is read."""
    with serving(sends(build[1])) as (url, _):
        assert "larger than 100 bytes" in asking(url, largest=100).ask(build[0]).answered().told()


@pytest.mark.parametrize("where", ["before", "headers", "content"])
def test_a_slow_server_is_left(asking: Callable[..., Asking], build: tuple[str, bytes], where: str) -> None:
    """It gives some bytes again and again, but never enough of them."""
    is_over = threading.Event()

    def drip(request: BaseHTTPRequestHandler) -> None:
        if where == "content":
            request.send_response(200)
            request.end_headers()
            request.wfile.write(b"\x7fELF")
        elif where == "headers":
            request.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        while not is_over.wait(0.05):
            if where != "before":
                request.wfile.write(b"x")

    with serving(drip) as (url, _):
        assert "too slow" in asking(url, timeout_s=0.5).ask(build[0]).answered().told()
        is_over.set()


def test_the_whole_time_is_limited(asking: Callable[..., Asking], build: tuple[str, bytes]) -> None:
    """However fast the server is."""
    with serving(endless(b"\x7fELF")) as (url, _):
        assert "too slow" in asking(url, longest_s=0.2, largest=1 << 40).ask(build[0]).answered().told()


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://127.0.0.1/x", "/again"])
def test_redirects(asking: Callable[..., Asking], build: tuple[str, bytes], place: str) -> None:
    """Only HTTP is followed, and not forever."""

    def redirect(request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", place)
        request.end_headers()

    with serving(redirect) as (url, asked):
        assert "not an address of HTTP, or redirected too often" in asking(url).ask(build[0]).answered().told()
        assert len(asked) < 10


def test_compressed_answers_are_not_unpacked(asking: Callable[..., Asking], build: tuple[str, bytes]) -> None:
    """A small answer could become a huge file."""
    wanted = []

    def compressed(request: BaseHTTPRequestHandler) -> None:
        wanted.append(request.headers["Accept-Encoding"])
        request.send_response(200)
        request.send_header("Content-Encoding", "gzip")
        request.end_headers()
        request.wfile.write(b"\x1f\x8b" + bytes(1000))

    with serving(compressed) as (url, _):
        assert "no ELF file" in asking(url).ask(build[0]).answered().told()
    assert wanted == ["identity"]


def test_a_server_that_is_down_is_asked_again_later(
    asking: Callable[..., Asking], build: tuple[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It rests for a while; other files are not asked of it meanwhile. Nothing says that there is no file."""
    monkeypatch.setattr(debuginfod, "_REST_S", 0.5)
    is_down = threading.Event()
    is_down.set()

    def answer(request: BaseHTTPRequestHandler) -> None:
        if is_down.is_set():
            request.send_error(503)
        else:
            sends(build[1])(request)

    with serving(answer) as (url, asked):
        found = asking(url).ask(build[0]).answered()
        assert found.told() == f"server not reachable: {url}: HTTP status 503"
        assert found.client.pending == 1
        is_down.clear()
        found.until(lambda: found.found)
        assert len(asked) == 2


def test_closing_gives_up(asking: Callable[..., Asking], tmp_path: Path) -> None:
    """A download does not hold up the end, and leaves nothing behind; how many were not answered is told."""
    is_over = threading.Event()

    def wait(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(b"\x7fELF")
        is_over.wait()

    with serving(wait) as (url, asked):
        found = asking(url)
        for number in range(7):
            found.ask(f"{number:040x}")
        found.until(lambda: len(asked) == 4)
        found.client.close()
        assert found.client.pending == 7
        assert not found.client._thread.is_alive()
        is_over.set()
    assert not list((tmp_path / "cache").glob("*/*"))


def test_without_a_cache(asking: Callable[..., Asking], build: tuple[str, bytes]) -> None:
    """Nothing can be fetched, which is said."""
    with serving(sends(build[1])) as (url, asked):
        refused = asking(url, cache=Path("/proc/no-cache")).ask(build[0]).answered()
    assert refused.told().startswith("the cache cannot be written: /proc/no-cache: ")
    assert asked == []
