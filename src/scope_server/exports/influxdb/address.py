"""Where an InfluxDB is: the forms of the setting `influxdb`, and how it knows us."""

from base64 import b64encode
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from scope_wire.errors import InvalidSetting

FORMS = "http://HOST:PORT/write?db=DATABASE or https://HOST:PORT/api/v2/write?org=ORGANISATION&bucket=BUCKET"
_NEEDED = {"/write": {"db"}, "/api/v2/write": {"org", "bucket"}}
_POSSIBLE = {"/write": {"db", "rp"}, "/api/v2/write": {"org", "bucket"}}


def influxdb_address(text: str, name: str = "influxdb") -> str:
    """The URL with the precision of our times.

    Raises:
        InvalidSetting: it has none of the forms.
    """
    try:
        parts = urlsplit(text)
        given = dict(parse_qsl(parts.query, strict_parsing=True))
        fits = _NEEDED[parts.path] <= given.keys() <= _POSSIBLE[parts.path] and parts.port != 0
        if not fits or parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise ValueError(text)
    except (ValueError, KeyError):  # what it says may have a password
        raise InvalidSetting(f"{name}: is none of {FORMS}; leave a token to influxdb_token_file") from None
    return urlunsplit(parts._replace(query=urlencode(given | {"precision": "ns"})))


def authorization(url: str, secret: str) -> Mapping[str, str]:
    """The header: of InfluxDB 2 with a token, of InfluxDB 1 with `USER:PASSWORD`."""
    if urlsplit(url).path == "/write":
        return {"Authorization": f"Basic {b64encode(secret.encode()).decode()}"}
    return {"Authorization": f"Token {secret}"}
