"""Where a collector is: the forms of the setting `otlp`, and the headers that it wants."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from scope_server.errors import InvalidSettings
from scope_wire.errors import InvalidSetting

FORMS = "grpcs://HOST:PORT, https://HOST:PORT (protobuf), or without TLS grpc://HOST:PORT, http://HOST:PORT"
_PORT = {"grpc": 4317, "grpcs": 4317, "http": 4318, "https": 4318}
_HEADER = re.compile(r"([A-Za-z0-9_.-]+): *([\x20-\x7e]+)")


@dataclass(frozen=True)
class Address:
    """A collector.

    Attributes:
        scheme: grpc, grpcs, http or https.
        path: of HTTP: before `/v1/metrics`; empty or beginning with a slash.
    """

    scheme: str
    host: str
    port: int
    path: str = ""

    @property
    def is_grpc(self) -> bool:
        """Whether it is called over gRPC."""
        return self.scheme.startswith("grpc")

    @property
    def has_tls(self) -> bool:
        """Whether it is called with TLS."""
        return self.scheme.endswith("s")

    @property
    def authority(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def otlp_address(text: str, name: str = "otlp") -> Address:
    """Reads an address.

    Raises:
        InvalidSetting: it has none of the forms.
    """
    try:
        parts = urlsplit(text)
        port = parts.port if parts.port is not None else _PORT[parts.scheme]
        path = parts.path.rstrip("/")
        strange = parts.query or parts.fragment or "@" in parts.netloc or not parts.hostname or not port
        if strange or parts.scheme not in _PORT or (path and parts.scheme.startswith("grpc")):
            raise ValueError(text)
        return Address(parts.scheme, parts.hostname or "", port, path)
    except (ValueError, KeyError):  # what it says may have a password
        raise InvalidSetting(f"{name}: is none of {FORMS}; leave secrets to otlp_headers_file") from None


def headers_of(file: Path | None) -> dict[str, str]:
    """The headers in a file, a line each, such as `Authorization: Bearer SECRET`. None: there are none.

    Raises:
        InvalidSettings: the file cannot be read, or a line is no header.
    """
    if file is None:
        return {}
    try:
        lines = [line.strip() for line in file.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"otlp_headers_file: cannot read {file}: {error}") from None
    found = [_HEADER.fullmatch(line) for line in lines]
    if not all(found):
        number = found.index(None) + 1
        raise InvalidSettings(f"otlp_headers_file: line {number} of {file} is no header; write it as NAME: VALUE")
    return {header[1].lower(): header[2] for header in found if header}
