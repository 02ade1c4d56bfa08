"""Private keys, and the file with a key, its certificate and the authorities'.

All keys are ECDSA on P-256: BoringSSL, in gRPC, has no Ed25519 unless asked. `tls.py` relies on it, too.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from scope_wire.errors import InvalidCertificate, InvalidKeyFile
from scope_wire.identity import Holder, holder_of

Key = ec.EllipticCurvePrivateKey


def make_key() -> Key:
    """A new private key."""
    return ec.generate_private_key(ec.SECP256R1())


def signing_request(key: Key) -> bytes:
    """A request to sign the key's public half: PKCS #10, DER. It has no name; the signer decides it."""
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.DER)


def pem_of(thing: Key | x509.Certificate) -> bytes:
    """A key, unencrypted PKCS #8, or a certificate, in PEM."""
    if isinstance(thing, x509.Certificate):
        return thing.public_bytes(serialization.Encoding.PEM)
    return thing.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@dataclass(frozen=True)
class Anonymous:
    """What somebody trusts who has no certificate yet.

    Attributes:
        authorities: certificates of the authorities, or of the one server, whose certificate is accepted.
    """

    authorities: tuple[x509.Certificate, ...]


@dataclass(frozen=True)
class Credentials:
    """A key with its certificate, and the certificates of the authorities that its owner trusts.

    Attributes:
        authorities: the first is of the authority that signs now; a second one is there while that is replaced.
    """

    key: Key
    certificate: x509.Certificate
    authorities: tuple[x509.Certificate, ...]

    def __post_init__(self) -> None:
        """Raises InvalidCertificate: they do not belong together."""
        if self.certificate.public_key() != self.key.public_key():
            raise InvalidCertificate("the certificate is of another key")
        require_signed(self.certificate, *self.authorities)

    @property
    def holder(self) -> Holder:
        """Whom the certificate names."""
        return holder_of(self.certificate)

    def write(self, file: Path) -> None:
        """Writes all of it into a file, mode 0600, at once; grpcurl takes it for -cert, -key and -cacert.

        Raises:
            OSError: the file cannot be written.
        """
        write_private(file, pem_of(self.key) + b"".join(map(pem_of, (self.certificate, *self.authorities))))

    @classmethod
    def read(cls, file: Path) -> "Credentials":
        """The credentials in a file.

        Raises:
            InvalidKeyFile: the file cannot be read, others may read it, or it has no credentials.
        """
        pem = read_private(file)
        try:
            key = serialization.load_pem_private_key(pem, None)
            certificate, *authorities = x509.load_pem_x509_certificates(pem)
            if not isinstance(key, Key):
                raise InvalidCertificate("the key is not an ECDSA key")
            return cls(key, certificate, tuple(authorities))
        except ValueError as error:
            raise InvalidKeyFile(f"{file} has no key with its certificate and authority: {error}") from None


def require_signed(certificate: x509.Certificate, *authorities: x509.Certificate) -> None:
    """Raises InvalidCertificate unless one of the authorities signed the certificate."""
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
            return
        except (ValueError, TypeError, InvalidSignature):
            continue
    raise InvalidCertificate("the certificate is of another authority")


def is_authority(certificate: x509.Certificate) -> bool:
    """Whether what the certificate's key has signed may count as signed by an authority."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def write_private(file: Path, content: bytes) -> None:
    """Writes a file that only its owner may read, at once and safe against a power cut.

    Raises:
        OSError: it cannot be written.
    """
    fresh = file.with_name(file.name + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)


def read_private(file: Path) -> bytes:
    """The content of a file that only its owner may read.

    Raises:
        InvalidKeyFile: it cannot be read, or others may read it.
    """
    try:
        with file.open("rb") as opened:
            if os.fstat(opened.fileno()).st_mode & 0o077:
                raise InvalidKeyFile(f"other users may read {file}; run `chmod 600 {file}`")
            return opened.read()
    except OSError as error:
        raise InvalidKeyFile(f"cannot read {file}: {error.strerror}") from None
