"""Serves the console: what `make console` built, read once when the server starts, so that no path leads elsewhere.

Files below assets/ have their content's hash in their name and are kept by browsers for ever. Each other path is one of
the console's own addresses, and gets its page.
"""

import gzip
import mimetypes
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from aiohttp import web

# Addresses of the API stay with the table of routes: below them, nothing has a page.
PATHS = r"/{path:(?!api(/|$)|metrics$).*}"
_PAGE, _HASHED = "index.html", "assets/"
_FOR_EVER, _NEVER = "public, max-age=31536000, immutable", "no-cache"
_ABSENT = "this build has no console, which `make console` or `pip install .` builds; the API is at /api/v1\n"
_SMALL = 1024  # bytes that are not worth compressing


@dataclass(frozen=True)
class _File:
    content: bytes
    packed: bytes
    kind: str

    @classmethod
    def of(cls, path: Traversable) -> "_File":
        content = path.read_bytes()
        packed = gzip.compress(content, mtime=0) if len(content) > _SMALL else content
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        return cls(content, packed if len(packed) < len(content) else content, kind)

    def answer(self, request: web.Request, cache: str) -> web.Response:
        headers = {"Cache-Control": cache, "Vary": "Accept-Encoding"}
        takes = "gzip" in request.headers.get("Accept-Encoding", "") and self.packed is not self.content
        if takes:
            headers["Content-Encoding"] = "gzip"
        charset = "utf-8" if self.kind.startswith("text/") else None
        body = self.packed if takes else self.content
        return web.Response(body=body, headers=headers, content_type=self.kind, charset=charset)


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
                self._files[path + each.name] = _File.of(each)

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
