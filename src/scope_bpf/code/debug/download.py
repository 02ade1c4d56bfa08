"""Downloads one file from a debuginfod server: debuginfod(8), "GET /buildid/BUILDID/debuginfo"."""

import asyncio
from typing import IO

import aiohttp

_MOST_REDIRECTS = 5
_STEP = 100 << 10  # bytes for each timeout
_NOT_FOUND = 404
_ELF = b"\x7fELF"


class NotThere(Exception):
    """The server does not have the file."""


class Refused(Exception):
    """The server's answer is not used. The message says why."""


class Unreachable(Exception):
    """The server did not answer in time, or not as agreed. The message says why."""


async def download(
    session: aiohttp.ClientSession,
    url: str,
    file: IO[bytes],
    *,
    largest: int,
    timeout_s: float | None,
    longest_s: float | None,
) -> None:
    """Writes what is at a URL to a file.

    Args:
        largest: maximum size in bytes.
        timeout_s: how long the server may take for each 100 KiB; None: any time.
        longest_s: how long the server may take for all; None: any time.

    Raises:
        NotThere: the server does not have the file.
        Refused: the answer is no ELF file, is too large, or comes from a place that is not as safe.
        Unreachable: the server did not answer in time, or with an error.
        OSError: the file cannot be written.
    """
    try:
        async with (
            asyncio.timeout(longest_s),
            asyncio.timeout(timeout_s) as patience,
            # aiohttp follows redirects only to HTTP and HTTPS
            session.get(url, headers={"Accept-Encoding": "identity"}, max_redirects=_MOST_REDIRECTS) as answer,
        ):
            _check(answer, largest)
            size = until = 0
            begin = b""
            async for piece in answer.content.iter_any():
                size += len(piece)
                if size > largest:
                    raise Refused(f"larger than {largest:,} bytes")
                begin += piece[: len(_ELF) - len(begin)]
                if not _ELF.startswith(begin):
                    raise Refused("no ELF file")
                file.write(piece)
                if timeout_s and size >= until + _STEP:
                    until = size
                    patience.reschedule(asyncio.get_running_loop().time() + timeout_s)
    except TimeoutError as error:
        raise Unreachable("too slow") from error
    except (aiohttp.InvalidURL, aiohttp.RedirectClientError, aiohttp.TooManyRedirects) as error:
        raise Refused("not an address of HTTP, or redirected too often") from error
    except aiohttp.ClientError as error:  # other texts may contain the server's words
        told = str(error) if isinstance(error, aiohttp.ClientConnectorError) else type(error).__name__
        raise Unreachable(told) from error


def _check(answer: aiohttp.ClientResponse, largest: int) -> None:
    if answer.history and answer.history[0].url.scheme == "https" != answer.url.scheme:
        raise Refused("redirected from HTTPS to HTTP")
    if answer.status == _NOT_FOUND:
        raise NotThere
    if answer.status != 200:
        raise Unreachable(f"HTTP status {answer.status}")
    if (answer.content_length or 0) > largest:
        raise Refused(f"larger than {largest:,} bytes")
