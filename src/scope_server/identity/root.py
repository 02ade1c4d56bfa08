"""A root: the key of an authority with its own certificate, and what it signs."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scope_wire.errors import InvalidKeyFile
from scope_wire.identity import Identity, Kind, dns_names, key_digest
from scope_wire.keys import Key, make_key, pem_of, read_private, write_private

LIFETIME = timedelta(days=30)  # of the certificate of a machine or person
_LONG = timedelta(days=3653)  # of a root's, and of the server's, which lives in its memory
_BEGIN = datetime(2020, 1, 1, tzinfo=UTC)  # of all: clocks of machines may be wrong, and must still connect
_USAGES = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]


@dataclass(frozen=True)
class Root:
    """A key, and the certificate that it has signed for itself."""

    key: Key
    certificate: x509.Certificate

    @classmethod
    def make(cls) -> "Root":
        """A new root. Its name has its key's digest: two roots of one fleet must differ in their names."""
        key = make_key()
        request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
        name = _name(f"SCOPE authority {key_digest(request).hex()[:8]}")
        certificate = (
            _builder(key.public_key(), name, name, _LONG)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    @classmethod
    def read(cls, certificate_file: Path, key_file: Path) -> "Root":
        """The root in two files.

        Raises:
            OSError: one cannot be read.
            ValueError: one has not what it should have, or others may read the key.
        """
        key = serialization.load_pem_private_key(read_private(key_file), None)
        if not isinstance(key, Key):
            raise InvalidKeyFile(f"{key_file.name} is not an ECDSA key")
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        if certificate.public_key() != key.public_key():
            raise InvalidKeyFile(f"{certificate_file.name} is of another key than {key_file.name}")
        try:
            certificate.verify_directly_issued_by(certificate)
            is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        except (InvalidSignature, TypeError, x509.ExtensionNotFound):
            is_authority = False
        if not is_authority:
            raise InvalidKeyFile(
                f"{certificate_file.name} is not the certificate of a root authority, signed by itself"
            )
        return cls(key, certificate)

    def write(self, certificate_file: Path, key_file: Path) -> None:
        """Writes the root into two files that only their owner may read.

        Raises:
            OSError: they cannot be written.
        """
        write_private(certificate_file, pem_of(self.certificate))
        write_private(key_file, pem_of(self.key))  # last: it says that both are there

    def sign(self, key: Any, identity: Identity, hosts: Sequence[str] = ()) -> x509.Certificate:
        """The certificate of a public key.

        Args:
            hosts: more names and addresses, of a server.
        """
        names = [
            x509.UniformResourceIdentifier(identity.uri),
            *map(x509.DNSName, dns_names(identity)),
            *map(_host, hosts),
        ]
        lifetime = _LONG if identity.kind is Kind.SERVER else LIFETIME
        return (
            _builder(key, _name(identity.name or identity.kind), self.certificate.subject, lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(_USAGES), critical=False)
            .sign(self.key, hashes.SHA256())
        )


def _builder(key: Any, subject: x509.Name, issuer: x509.Name, lifetime: timedelta) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_BEGIN)
        .not_valid_after(datetime.now(UTC) + lifetime)
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
