"""Compresses what is answered at once and is long, for callers that take it so.

Columns of numbers and lists of objects become a tenth to a twentieth as long in less time than a network of a gigabit a
second takes to carry them. Short answers stay as they are: all that hold secrets are short, so that their length tells
nothing of them.
"""

import asyncio
import gzip

from aiohttp import web

_SHORT = 32 * 1024  # bytes
_LEVEL = 1  # the next ones take more time than they save
_COMPRESSED = ("application/vnd.google.pprof+gzip", "application/vnd.apache.parquet")


async def compress(answer: web.Response, accepts: str) -> None:
    """Compresses the body of an answer.

    Args:
        accepts: the request's header `Accept-Encoding`.
    """
    body = answer.body
    if not isinstance(body, bytes) or len(body) < _SHORT or answer.content_type in _COMPRESSED:
        return
    answer.headers["Vary"] = "Accept-Encoding"
    if "gzip" in accepts:
        answer.body = await asyncio.to_thread(gzip.compress, body, _LEVEL, mtime=0)
        answer.headers["Content-Encoding"] = "gzip"
