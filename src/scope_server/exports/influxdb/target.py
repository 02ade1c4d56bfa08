"""Writes lines to InfluxDB 1 (`/write`) or 2 (`/api/v2/write`)."""

import json
import re
from collections.abc import Sequence

from scope_server.errors import TargetUnavailable
from scope_server.exports.contract import Item, Point
from scope_server.exports.http import Http
from scope_server.exports.influxdb.lines import lines

_DROPPED = re.compile(r"dropped=([0-9]+)")
_BAD_LINES, _TOO_LARGE, _UNPROCESSABLE = 400, 413, 422


class InfluxDb:
    """The target.

    Args:
        url: from `influxdb_address`.
    """

    name, most = "influxdb", 2000

    def __init__(self, http: Http, url: str) -> None:
        self._http, self._url = http, url

    async def send(self, items: Sequence[Item]) -> int:
        """See `Target`."""
        points = [item for item in items if isinstance(item, Point)]
        body = "\n".join(lines(points)).encode()
        if not body:
            return 0
        status, told = await self._http.post(self._url, body, "text/plain; charset=utf-8")
        answer = told.decode(errors="replace")
        if status < 300:
            return 0
        if status == _TOO_LARGE and len(items) > 1:
            half = len(items) // 2
            return await self.send(items[:half]) + await self.send(items[half:])
        if status in (_BAD_LINES, _UNPROCESSABLE, _TOO_LARGE):
            dropped = _DROPPED.search(answer)
            return min(len(items), int(dropped[1])) if dropped and int(dropped[1]) else len(items)
        raise TargetUnavailable(f"InfluxDB answers {status}: {_said(answer)}")

    async def close(self) -> None:
        """See `Target`."""
        await self._http.close()


def _said(answer: str) -> str:
    try:
        told = json.loads(answer)
        return str(told.get("error") or told.get("message") or answer)[:200]
    except (ValueError, AttributeError):
        return answer[:200]
