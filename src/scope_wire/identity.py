"""Who has a certificate: a machine's agent, a person, or the server.

The authority signs a URI into each certificate, as a subject alternative name: scope:machine/ID,
scope:operator/ROLE/NAME or scope:server. The DNS names beside it are what the other side of a connection asks for: they
do not depend on addresses, which may change.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from scope_wire.errors import InvalidCertificate
from scope_wire.limits import PERSON_LENGTH
from scope_wire.tls import require_tls_1_3

SERVER_NAME = "server.scope.internal"
AGENT_NAME = "agent.scope.internal"
_MACHINE = re.compile(r"[0-9a-f]{32}")
_PERSON = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._@-]{{0,{PERSON_LENGTH - 1}}}")


class Kind(StrEnum):
    """What has the certificate."""

    MACHINE = "machine"
    OPERATOR = "operator"
    SERVER = "server"


class Role(StrEnum):
    """What a person may do at an agent: see tasks, or also start and stop them.

    The names are those of the server's accounts. There, an admin may do more than an operator; at an agent, as much.
    """

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


@dataclass(frozen=True)
class Identity:
    """The name in a certificate.

    Attributes:
        name: machine id, or the person's name; empty for the server.
        role: of a person.

    Raises:
        InvalidCertificate: a name has another form.
    """

    kind: Kind
    name: str = ""
    role: Role | None = None

    def __post_init__(self) -> None:
        if self.kind is Kind.MACHINE and not _MACHINE.fullmatch(self.name):
            raise InvalidCertificate("a machine id has 32 hexadecimal digits in lower case")
        if self.kind is Kind.OPERATOR and not _PERSON.fullmatch(self.name):
            raise InvalidCertificate(
                f"name: {self.name[:PERSON_LENGTH]!r} is not one; use up to {PERSON_LENGTH} letters, digits, . _ @ -, "
                "a letter or digit first"
            )

    @property
    def uri(self) -> str:
        """The name as in the certificate."""
        return ":".join(("scope", "/".join(filter(None, (self.kind, self.role, self.name)))))

    @classmethod
    def of_uri(cls, uri: str) -> "Identity":
        """The identity with this name.

        Raises:
            InvalidCertificate: no identity has it.
        """
        try:
            scheme, _, rest = uri.partition(":")
            kind, *words = rest.split("/")
            if scheme != "scope" or len(words) != {"machine": 1, "operator": 2, "server": 0}[kind]:
                raise ValueError
            role = Role(words[0]) if kind == Kind.OPERATOR else None
            return cls(Kind(kind), words[-1] if words else "", role)
        except (ValueError, KeyError):
            raise InvalidCertificate(f"{uri[:100]!r} is not a name that SCOPE gives") from None


def dns_names(identity: Identity) -> list[str]:
    """The DNS names in a certificate: that of all servers, or of all agents and of this one; a person has none."""
    if identity.kind is Kind.SERVER:
        return [SERVER_NAME]
    return [AGENT_NAME, f"{identity.name}.{AGENT_NAME}"] if identity.kind is Kind.MACHINE else []


@dataclass(frozen=True)
class Holder:
    """The holder of a certificate.

    Attributes:
        serial: of the certificate, in hexadecimal digits.
        expires: when the certificate ends, UTC.
        key: SHA-256 of the public key, as `key_digest` has it.
        issuer: name of the authority that signed it.
    """

    identity: Identity
    serial: str
    expires: datetime
    key: bytes
    issuer: str


def holder_of(certificate: x509.Certificate) -> Holder:
    """Whom a certificate names.

    Raises:
        InvalidCertificate: it has not exactly one name that SCOPE gives.
    """
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError):
        raise InvalidCertificate("the certificate has no name that SCOPE gives") from None
    identity = _only(names.get_values_for_type(x509.UniformResourceIdentifier))
    try:
        issuer, key = certificate.issuer.rfc4514_string(), key_digest(certificate)
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidCertificate("the certificate has a key or an issuer that cannot be read") from None
    return Holder(identity, f"{certificate.serial_number:x}", certificate.not_valid_after_utc, key, issuer)


def key_digest(of: x509.Certificate | x509.CertificateSigningRequest) -> bytes:
    """SHA-256 of the public key, as DER: what tells a machine from its copy that joined by itself."""
    key = of.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(key).digest()


def read_certificate(content: bytes) -> x509.Certificate:
    """A certificate in PEM or DER.

    Raises:
        InvalidCertificate: the bytes are none.
    """
    try:
        if content.startswith(b"-----"):
            return x509.load_pem_x509_certificate(content)
        return x509.load_der_x509_certificate(content)
    except (ValueError, x509.InvalidVersion):
        raise InvalidCertificate("these bytes are no certificate") from None


def caller_of(shown: Mapping[str, Iterable[bytes]]) -> Holder:
    """Whom the certificate of a connection names; `shown` is gRPC's `auth_context()`, which has it in PEM.

    Raises:
        InvalidCertificate: there is none, it has not exactly one name that SCOPE gives, or the connection does not use
            TLS 1.3.
    """
    require_tls_1_3(shown)
    (pem, *_) = (*shown.get("x509_pem_cert", ()), b"")
    if not pem:
        raise InvalidCertificate("the connection has no certificate")
    return holder_of(read_certificate(pem))


def _only(uris: list[str]) -> Identity:
    if len(uris) != 1:
        raise InvalidCertificate(f"the certificate has {len(uris)} names instead of one")
    return Identity.of_uri(uris[0])
