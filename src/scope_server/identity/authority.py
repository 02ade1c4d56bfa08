"""The certificate authority: a key and its certificate, in a directory of the server."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scope_server.errors import InvalidMessage, InvalidSettings
from scope_wire.errors import InvalidKeyFile
from scope_wire.identity import Identity, Kind, dns_names
from scope_wire.keys import Credentials, Key, make_key, pem_of, read_private, signing_request, write_private

CERTIFICATE_FILE = "certificate.pem"  # in the authority's directory
LIFETIME = timedelta(days=30)  # of the certificate of a machine or person
_LONG = timedelta(days=3653)  # of the authority's, and of the server's, which lives in its memory
_BEGIN = datetime(2020, 1, 1, tzinfo=UTC)  # of all: clocks of machines may be wrong, and must still connect
_USAGES = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]


class Authority:
    """Signs certificates. Servers of one fleet share its directory: `key.pem` and `certificate.pem`.

    Raises:
        InvalidSettings: the files cannot be made or used.
    """

    def __init__(self, directory: Path) -> None:
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not (directory / "key.pem").exists():
                _make(directory)
            self._key = _private_key(read_private(directory / "key.pem"))
            self.certificate = x509.load_pem_x509_certificate((directory / CERTIFICATE_FILE).read_bytes())
        except OSError as error:
            raise InvalidSettings(f"authority: cannot use {directory}: {error.strerror}") from None
        except ValueError as error:
            raise InvalidSettings(f"authority: cannot use {directory}: {error}") from None
        if self.certificate.public_key() != self._key.public_key():
            raise InvalidSettings(f"authority: {directory}/certificate.pem is of another key than key.pem")

    @property
    def trusted(self) -> tuple[x509.Certificate, ...]:
        """The certificates of the authorities whose signatures count."""
        return (self.certificate,)

    def sign(self, request: bytes, identity: Identity) -> x509.Certificate:
        """Signs the public key of a request (PKCS #10, DER); all else in the request is ignored.

        Raises:
            InvalidMessage: these bytes are no request with an ECDSA key on P-256, signed with it.
        """
        key = read_request(request).public_key()
        names = [x509.UniformResourceIdentifier(identity.uri), *map(x509.DNSName, dns_names(identity))]
        lifetime = _LONG if identity.kind is Kind.SERVER else LIFETIME
        return (
            x509.CertificateBuilder()
            .subject_name(_name(identity.name or identity.kind))
            .issuer_name(self.certificate.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(_BEGIN)
            .not_valid_after(datetime.now(UTC) + lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(_USAGES), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def issue(self, identity: Identity) -> Credentials:
        """New credentials of this process's own."""
        key = make_key()
        return Credentials(key, self.sign(signing_request(key), identity), (self.certificate,))


def read_request(request: bytes) -> x509.CertificateSigningRequest:
    """A request to sign a key (PKCS #10, DER).

    Raises:
        InvalidMessage: these bytes are no request with an ECDSA key on P-256, signed with it.
    """
    try:
        asked = x509.load_der_x509_csr(request)
        key = asked.public_key()
        valid = asked.is_signature_valid
    except (ValueError, x509.InvalidVersion, UnsupportedAlgorithm):
        raise InvalidMessage("signing_request: these bytes are no signing request") from None
    if not valid or not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp256r1":
        raise InvalidMessage("signing_request: it must have an ECDSA key on P-256, and be signed with it")
    return asked


def _make(directory: Path) -> None:
    key = make_key()
    name = _name("SCOPE authority")
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_BEGIN)
        .not_valid_after(datetime.now(UTC) + _LONG)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    write_private(directory / CERTIFICATE_FILE, pem_of(certificate))
    write_private(directory / "key.pem", pem_of(key))  # last: it says that both are there


def _private_key(pem: bytes) -> Key:
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, Key):
        raise InvalidKeyFile("key.pem is not an ECDSA key")
    return key


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
