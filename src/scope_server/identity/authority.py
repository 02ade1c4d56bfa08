"""The certificate authority: its root, and the next one while it is being replaced, in a directory of the server."""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from scope_server.errors import InvalidMessage, InvalidSettings, NotOurs
from scope_server.identity.root import Root
from scope_wire.identity import Holder, Identity, Kind
from scope_wire.keys import Credentials, make_key, pem_of, read_private, signing_request, write_private

# In the authority's directory. A root is one file, so that a server that is killed never leaves half of one.
ROOT_FILE, CERTIFICATE_FILE = "key.pem", "certificate.pem"
_NEXT_FILE, _REPLACED_FILE = "next-key.pem", "replaced.pem"


class Authority:
    """Signs certificates.

    Servers of one fleet share its directory: a root, and, while it is being replaced, the next root beside it. Then the
    next one signs for machines and persons, and everybody trusts both. But servers still show certificates of the first
    one: machines that do not have the next one yet must go on knowing them.

    Of a root that was replaced, the directory keeps no key, only what machines need that were away all the time.

    Args:
        given: files with certificate and key of an authority from outside, which is not replaced from here.

    Attributes:
        replaced: the certificates of roots that were replaced, oldest first. Their signatures no longer count: they
            only tell by which root a machine that comes back was known.
        vouched: what each of them has signed for the key of the next one.

    Raises:
        InvalidSettings: the files cannot be made or used.
    """

    def __init__(self, directory: Path, given: tuple[Path, Path] | None = None) -> None:
        self._directory, self._given = directory, given
        self._root: Root
        self._next: Root | None
        self.replaced: tuple[x509.Certificate, ...]
        self.vouched: tuple[x509.Certificate, ...]
        try:
            if not given:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                with _alone(directory):
                    if not (directory / ROOT_FILE).exists():
                        Root.make().write(directory / ROOT_FILE)
                    self._unite()
                    self.reread()
                    self._show_certificate()
            else:
                self.reread()
        except OSError as error:
            raise InvalidSettings(f"authority: cannot use {directory}: {error.strerror}") from None
        except ValueError as error:
            raise InvalidSettings(f"authority: cannot use {given[0].parent if given else directory}: {error}") from None
        self._own: Credentials | None = None

    def _read_next(self) -> Root | None:
        file = self._directory / _NEXT_FILE
        return Root.read(file, file) if file.exists() else None

    def _read_replaced(self) -> list[x509.Certificate]:
        """Of each replaced root its certificate, then that which it signed for the next one."""
        file = self._directory / _REPLACED_FILE
        return x509.load_pem_x509_certificates(read_private(file)) if file.exists() else []

    @property
    def certificate(self) -> x509.Certificate:
        """The root by which servers are known: tokens have its digest."""
        return self._root.certificate

    @property
    def trusted(self) -> tuple[x509.Certificate, ...]:
        """The roots whose signatures count; the first one signs for machines and persons."""
        return (self._next.certificate, self._root.certificate) if self._next else (self._root.certificate,)

    @property
    def rotates(self) -> bool:
        """Whether the root is being replaced."""
        return self._next is not None

    def is_newest(self, holder: Holder) -> bool:
        """Whether the root that signs now has signed this certificate: then its holder trusts this root."""
        return holder.issuer == (self._next or self._root).name

    def begin_rotation(self) -> None:
        """Makes the next root.

        Raises:
            NotOurs: the authority is from outside, or is being replaced already.
            OSError, ValueError: the files cannot be read or written.
        """
        if self._given:
            raise NotOurs(
                "the authority is from outside, as --ca-cert says: replace these files, and restart the server"
            )
        with _alone(self._directory):
            self.reread()
            if self._next:
                raise NotOurs("the authority is being replaced already: `scope admin rotate-ca` shows the progress")
            following = Root.make()
            following.write(self._directory / _NEXT_FILE)
            self._next = following

    def finish_rotation(self) -> None:
        """The next root becomes the only one.

        Raises:
            NotOurs: the authority is not being replaced.
            OSError, ValueError: the files cannot be read or written.
        """
        with _alone(self._directory):
            self.reread()
            if not self._next:
                raise NotOurs("the authority is not being replaced; `scope admin rotate-ca --begin` begins")
            if self.certificate not in self.replaced:  # else a server was killed below
                kept = [*self._read_replaced(), self.certificate, self._root.vouch_for(self._next)]
                write_private(self._directory / _REPLACED_FILE, b"".join(map(pem_of, kept)))
            (self._directory / _NEXT_FILE).replace(self._directory / ROOT_FILE)
            self.reread()
            self._show_certificate()

    def reread(self) -> None:
        """Takes what another server of the fleet has changed. Files that cannot be used change nothing.

        Raises:
            OSError, ValueError: they cannot be used; the message says why.
        """
        if self._given:
            self._root, self._next = Root.read(*self._given), None
            self.replaced, self.vouched = (), ()
            return
        root = Root.read(self._directory / ROOT_FILE, self._directory / ROOT_FILE)
        following, replaced = self._read_next(), self._read_replaced()
        self._root, self._next = root, following
        self.replaced, self.vouched = tuple(replaced[::2]), tuple(replaced[1::2])

    def _unite(self) -> None:
        """Earlier releases kept the certificate of a root in a file of its own: it goes into the file with the key."""
        for name in (ROOT_FILE, _NEXT_FILE):
            file = self._directory / name
            certificate = file.with_name(name.replace(ROOT_FILE, CERTIFICATE_FILE))
            if file.exists() and certificate.exists() and b"BEGIN CERTIFICATE" not in read_private(file):
                Root.read(certificate, file).write(file)

    def _show_certificate(self) -> None:
        """Keeps the certificate of the root also as a file without a key, for those who only want to know the servers:
        nginx, Prometheus, browsers."""
        file, shown = self._directory / CERTIFICATE_FILE, pem_of(self.certificate)
        if not file.exists() or file.read_bytes() != shown:
            write_private(file, shown)

    def secret(self, purpose: str) -> bytes:
        """32 bytes that servers with this authority have in common, and nobody else can know; others when the root is
        replaced."""
        scalar = self._root.key.private_numbers().private_value
        of_key = scalar.to_bytes((self._root.key.key_size + 7) // 8, "big")
        return HKDF(hashes.SHA256(), 32, salt=None, info=f"scope {purpose}".encode()).derive(of_key)

    def own(self, hosts: Sequence[str]) -> Credentials:
        """This server's credentials, with these names and addresses: new ones after each change of the roots."""
        if self._own is None or self._own.authorities != self.trusted:
            key, identity = make_key(), Identity(Kind.SERVER)
            signed = self._root.sign(key.public_key(), identity, hosts)
            self._own = Credentials(key, signed, self.trusted)
        return self._own

    def sign(self, request: bytes, identity: Identity) -> x509.Certificate:
        """Signs the public key of a request (PKCS #10, DER); all else in the request is ignored.

        Raises:
            InvalidMessage: these bytes are no request with an ECDSA key on P-256, signed with it.
        """
        return (self._next or self._root).sign(read_request(request).public_key(), identity)

    def issue(self, identity: Identity) -> Credentials:
        """New credentials."""
        key = make_key()
        return Credentials(key, self.sign(signing_request(key), identity), self.trusted)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One server of the fleet at a time changes the authority: the kernel frees the lock of a killed one."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


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
