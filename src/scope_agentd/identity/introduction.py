"""How a machine knows its server where it trusts none of the roots that gRPC could check the server's certificate with.

gRPC can neither compare digests nor follow what replaced roots have signed. So the server's own certificate is asked
for first, unchecked; the connection then accepts only this one; and what the server says there proves who it is.
"""

import socket
import ssl

from cryptography import x509

from scope_agentd.errors import NotJoined
from scope_wire.endpoint import Endpoint
from scope_wire.errors import InvalidCertificate
from scope_wire.identity import read_certificate
from scope_wire.keys import is_authority, require_signed

_ANSWER_S = 15.0


def certificate_of(to: Endpoint) -> x509.Certificate:
    """The certificate that a server shows, unchecked. Blocks.

    Raises:
        NotJoined: nothing there speaks TLS 1.3.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((to.host, to.port), _ANSWER_S) as connection,
            context.wrap_socket(connection) as secured,
        ):
            return read_certificate(secured.getpeercert(binary_form=True) or b"")
    except (OSError, ValueError) as error:
        raise NotJoined(f"no server enrols machines at {to}: {error}") from None


def followed(
    roots: tuple[x509.Certificate, ...], vouched: tuple[x509.Certificate, ...]
) -> tuple[x509.Certificate, ...]:
    """The roots that a machine trusts, and those that replaced them.

    Args:
        vouched: what each replaced root has signed for the key of the next one, oldest first. Others count for nothing:
            an authority has signed certificates of machines and persons, too.
    """
    for certificate in vouched:
        try:
            require_signed(certificate, *roots)
        except InvalidCertificate:
            continue
        if is_authority(certificate):
            roots = (*roots, certificate)
    return roots
