"""POST over HTTP or HTTPS to programs of others."""

import ssl
from collections.abc import Mapping
from pathlib import Path

import aiohttp

from scope_server.errors import InvalidSettings, TargetUnavailable

_ANSWERS_S = 20.0
_BUSY = (429, 502, 503, 504)
_MOST_ANSWER = 1 << 16
_MOST_WAIT_S = 300.0


class Http:
    """A client with connections that are kept.

    Args:
        headers: of every request.
        tls: what is trusted; None: the authorities of the system.
    """

    def __init__(self, headers: Mapping[str, str], tls: ssl.SSLContext | None) -> None:
        self._headers, self._tls = headers, tls
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: str, body: bytes, kind: str) -> tuple[int, bytes]:
        """Status and body of the answer.

        Raises:
            TargetUnavailable: there is none, or it says that the other side is busy.
        """
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=4, ssl=self._tls or True)
            timeout = aiohttp.ClientTimeout(total=_ANSWERS_S)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, headers=self._headers)
        try:
            async with self._session.post(
                url, data=body, headers={"Content-Type": kind}, allow_redirects=False
            ) as answer:
                said = await answer.content.read(_MOST_ANSWER)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TargetUnavailable(str(error) or type(error).__name__) from error
        if answer.status in _BUSY:
            raise TargetUnavailable(f"it answers {answer.status}", _seconds(answer.headers.get("Retry-After", "")))
        return answer.status, said

    async def close(self) -> None:
        """Ends its connections."""
        if self._session:
            await self._session.close()
            self._session = None


def trusting(ca_cert: Path | None, name: str) -> ssl.SSLContext | None:
    """Trust in the authority of a file alone; None: in those of the system.

    Raises:
        InvalidSettings: the file cannot be read, or has no certificate.
    """
    if ca_cert is None:
        return None
    try:
        return ssl.create_default_context(cafile=str(ca_cert))
    except (OSError, ssl.SSLError) as error:
        raise InvalidSettings(f"{name}: cannot read {ca_cert}: {error}") from None


def _seconds(text: str) -> float:
    return min(float(text), _MOST_WAIT_S) if text.isdigit() else 0.0
