"""Where Redis is: the forms of the setting `redis`."""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from scope_wire.errors import InvalidSetting

FORMS = (
    "redis://HOST:PORT/DB, rediss:// with TLS, unix:///PATH, redis+sentinel://HOST:PORT,HOST:PORT/SERVICE, "
    "redis+cluster://HOST:PORT,HOST:PORT; both with rediss+, too"
)
_PLAIN = ("redis", "rediss", "unix")
_PORT = {"sentinel": 26379, "cluster": 6379}


@dataclass(frozen=True)
class Address:
    """A Redis.

    Attributes:
        url: of one server: as redis-py reads it; of several: empty.
        kind: `one`, `sentinel` or `cluster`.
        hosts: of several: their names and ports.
        service: of Sentinel: the name of the service.
        tls: of several: whether they speak TLS.
        authority: of several: file with the certificates that are trusted; empty: those of the system.
        sentinel_password: of the Sentinels themselves; None: they have none.
    """

    url: str
    kind: str
    hosts: tuple[tuple[str, int], ...] = ()
    service: str = ""
    tls: bool = False
    authority: str = ""
    username: str | None = None
    password: str | None = None
    sentinel_password: str | None = None


def address(text: str, name: str = "redis") -> Address:
    """Reads an address.

    Raises:
        InvalidSetting: it has none of the forms.
    """
    try:
        parts = urlsplit(text)
        scheme, _, kind = parts.scheme.partition("+")
        if not kind and scheme in _PLAIN and (parts.hostname or (scheme == "unix" and parts.path)):
            _ = parts.port
            return Address(text, "one", username=parts.username, password=parts.password)
        if kind not in _PORT or scheme not in ("redis", "rediss"):
            raise ValueError(text)
        hosts = tuple(_host(one, _PORT[kind]) for one in parts.netloc.rpartition("@")[2].split(","))
        service = parts.path.strip("/")
        options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        authority = options.pop("ssl_ca_certs", "")
        if options or bool(service) != (kind == "sentinel"):
            raise ValueError(text)
        return Address("", kind, hosts, service, scheme == "rediss", authority, *_owner(parts.netloc))
    except ValueError:  # its message may have a piece of a password
        raise InvalidSetting(f"{name}: is no address of a Redis; write it as {FORMS}") from None


def without_password(text: str) -> str:
    """The address as others may see it."""
    parts = urlsplit(text)
    owner, at, hosts = parts.netloc.rpartition("@")
    user, colon, _ = owner.partition(":")
    query = re.sub(r"(?i)(\w*password)=[^&]*", r"\1=***", parts.query)  # redis-py takes one there, too
    return urlunsplit(parts._replace(netloc=f"{user}{':***' if colon else ''}{at}{hosts}", query=query))


def _host(text: str, port: int) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError(text)
    return parts.hostname, parts.port or port


def _owner(netloc: str) -> tuple[str | None, str | None]:
    owner, at, _ = netloc.rpartition("@")
    user, _, password = owner.partition(":")
    return (user or None, password or None) if at else (None, None)
