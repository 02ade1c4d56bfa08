"""TLS 1.3 only. gRPC for Python cannot set the lowest version.

But TLS 1.2, unlike 1.3, needs a cipher that fits the kind of key: all our keys are ECDSA, and with this setting gRPC
has only a cipher for RSA, so that no handshake of TLS 1.2 succeeds. gRPC reads the setting when it is imported, so
services check the version, too.
"""

import os
from collections.abc import Iterable, Mapping

from scope_wire.errors import InvalidCertificate


def only_tls_1_3() -> None:
    """Call it before gRPC is imported for the first time."""
    os.environ["GRPC_SSL_CIPHER_SUITES"] = "ECDHE-RSA-AES128-GCM-SHA256"


def require_tls_1_3(shown: Mapping[str, Iterable[bytes]]) -> None:
    """Checks gRPC's `auth_context()` of a call.

    Raises:
        InvalidCertificate: the connection has another version of TLS.
    """
    if b"TLSv1.3" not in shown.get("ssl_tls_version", ()):
        raise InvalidCertificate("the connection does not use TLS 1.3")
