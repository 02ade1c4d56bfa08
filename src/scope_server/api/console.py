"""Serves the console: what `make console` built, read once when the server starts, so that no path leads elsewhere.

Files below assets/ have their content's hash in their name and are kept by browsers for ever. Each other path is one of
the console's own addresses, and gets its page.
"""

import gzip
import mimetypes
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable

from aiohttp import web

# Addresses of the API stay with the table of routes: below them, nothing has a page.
PATHS = r"/{path:(?!api(/|$)|metrics$).*}"
_PAGE, _HASHED = "index.html", "assets/"
_FOR_EVER, _NEVER = "public, max-age=31536000, immutable", "no-cache"
_ABSENT = "this build has no console, which `make console` or `pip install .` builds; the API is at /api/v1\n"
_SMALL = 1024  # bytes that are not worth compressing


class _File:
    def __init__(self, path: Traversable) -> None:
        self._content = path.read_bytes()
        self._kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"

    @cached_property
    def _packed(self) -> bytes | None:  # when first asked for: packing all files takes 70 ms of a start
        packed = gzip.compress(self._content, mtime=0) if len(self._content) > _SMALL else self._content
        return packed if len(packed) < len(self._content) else None

    def answer(self, request: web.Request, cache: str) -> web.Response:
        headers = {"Cache-Control": cache, "Vary": "Accept-Encoding"}
        packed = self._packed if "gzip" in request.headers.get("Accept-Encoding", "") else None
        if packed:
            headers["Content-Encoding"] = "gzip"
        charset = "utf-8" if self._kind.startswith("text/") else None
        return web.Response(body=packed or self._content, headers=headers, content_type=self._kind, charset=charset)


class Console:
    """The console's files, by their paths."""

    def __init__(self, folder: Traversable | None = None) -> None:
        self._files: dict[str, _File] = {}
        self._read(folder or files("scope_server") / "console", "")

    def _read(self, folder: Traversable, path: str) -> None:
        for each in folder.iterdir() if folder.is_dir() else ():
            if each.is_dir():
                self._read(each, f"{path}{each.name}/")
            else:
                self._files[path + each.name] = _File(each)

    async def serve(self, request: web.Request) -> web.Response:
        """Answers with a file, or with the page.

        Raises:
            HTTPNotFound: this build has no such file, for example after another version was installed.
        """
        path = request.match_info["path"]
        if found := self._files.get(path):
            return found.answer(request, _FOR_EVER if path.startswith(_HASHED) else _NEVER)
        page = self._files.get(_PAGE)
        if page is None or path.startswith(_HASHED):
            raise web.HTTPNotFound(text="the console has no such file; load its page again" if page else _ABSENT)
        return page.answer(request, _NEVER)
