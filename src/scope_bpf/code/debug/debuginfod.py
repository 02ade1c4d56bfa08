"""Fetches debug files from debuginfod servers, in a thread of its own, and keeps them in the shared cache."""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import aiohttp

from scope_bpf.code.debug.cache import Cache
from scope_bpf.code.debug.download import NotThere, Refused, Unreachable, download
from scope_bpf.code.debug.separate import debug_file_at
from scope_bpf.code.debug.settings import Settings
from scope_bpf.code.elf import ElfFile
from scope_bpf.errors import NotElf

log = logging.getLogger(__name__)

_AT_ONCE = 4  # downloads
_REST_S = 600.0  # before a server that did not answer is asked again, like elfutils' `cache_miss_s`

Arrived = Callable[[ElfFile], None]


class Debuginfod:
    """Asks servers until `close`. For any thread.

    Attributes:
        counts: of what became of the questions and answers, by reason; to be shown.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings, self._cache = settings, Cache(settings.cache)
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._resting: dict[str, float] = {}  # servers, and until when
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._session: aiohttp.ClientSession | None = None
        self.counts: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, name="scope-debuginfod", daemon=True)
        self._thread.start()

    def ask(self, build_id: str, arrived: Arrived) -> None:
        """Asks for the debug file of a build; later calls `arrived`, in another thread, if there is one."""
        self._loop.call_soon_threadsafe(self._start, build_id, arrived)

    @property
    def pending(self) -> int:
        """The number of questions without an answer."""
        return len(self._tasks)

    def close(self) -> None:
        """Gives up what was not answered yet. May be called again."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        self._cache.clean()
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._end())
            self._loop.close()

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session:
            await self._session.close()

    def _start(self, build_id: str, arrived: Arrived) -> None:
        task = self._loop.create_task(self._seek(build_id, arrived))
        self._tasks.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():  # is told as pending
            return
        self._tasks.discard(task)
        if error := task.exception():
            self.counts["errors"] += 1
            log.error("cannot fetch a debug file", exc_info=error)

    async def _seek(self, build_id: str, arrived: Arrived) -> None:
        """Finds the file in the cache or on a server. Servers that do not answer are asked again later."""
        while True:
            with suppress(NotElf, OSError):  # damaged files are fetched again
                return arrived(debug_file_at(self._cache.path(build_id), build_id))
            try:
                async with self._slots:
                    if not self._cache.says_missing(build_id):
                        await self._fetch(build_id)
                        continue
                self.counts["no server has the file"] += 1
                return None
            except Refused:
                return None
            except Unreachable:
                await asyncio.sleep(_REST_S)
            except OSError as error:
                self._note("the cache cannot be written", "", build_id, error)
                return None

    async def _fetch(self, build_id: str) -> None:
        """Puts the file, or that no server has it, into the cache.

        Raises:
            Unreachable: a server that may have it does not answer.
            Refused: a server that should have it gives something else.
            OSError: the cache cannot be written.
        """
        failed: Refused | Unreachable | None = None
        for url in self._settings.urls:
            try:
                return await self._fetch_from(url, build_id)
            except NotThere:
                continue
            except Refused as error:
                self._note("answer refused", url, build_id, error)
                failed = failed or error
            except Unreachable as error:
                failed = error
        if failed:
            raise failed
        return self._cache.note_missing(build_id)

    async def _fetch_from(self, url: str, build_id: str) -> None:
        now = self._loop.time()
        if self._resting.get(url, 0.0) > now:
            raise Unreachable("was not reachable a short while ago")
        # Decompressed, an answer could be of any size.
        self._session = self._session or aiohttp.ClientSession(
            trust_env=True, timeout=aiohttp.ClientTimeout(), auto_decompress=False
        )
        wanted = self._settings
        try:
            with self._cache.new_file(build_id) as file:
                await download(
                    self._session,
                    f"{url}/buildid/{build_id}/debuginfo",
                    file,
                    largest=min(wanted.largest, self._cache.room()),
                    timeout_s=wanted.timeout_s,
                    longest_s=wanted.longest_s,
                )
                file.flush()
                debug_file_at(Path(file.name), build_id)
        except NotElf as error:
            raise Refused(str(error)) from error
        except Unreachable as error:
            self._resting[url] = self._loop.time() + _REST_S
            self._note("server not reachable", url, build_id, error)
            raise

    def _note(self, what: str, url: str, build_id: str, error: Exception) -> None:
        self.counts[f"{what}: {url or self._settings.cache}: {error}"] += 1
        log.warning("debuginfod: %s", what, extra={"url": url, "build_id": build_id, "reason": str(error)})
