"""The authority's files, and what it signs."""

import itertools
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from scope_server.errors import InvalidMessage, InvalidSettings, NotOurs
from scope_server.identity.authority import Authority
from scope_server.identity.root import LIFETIME
from scope_wire.identity import Identity, Kind, Role, holder_of
from scope_wire.keys import make_key, signing_request

_OPERATIONS = {"open", "os.rename", "os.remove"}
ME = Identity(Kind.OPERATOR, "me", Role.VIEWER)


def test_it_is_made_once(tmp_path: Path) -> None:
    """Two servers with the same directory are the same authority; only its owner may read the key."""
    folder = tmp_path / "state" / "authority"
    assert Authority(folder).certificate == Authority(folder).certificate
    assert (folder / "key.pem").stat().st_mode & 0o777 == 0o600


def test_roots_of_an_earlier_release(tmp_path: Path) -> None:
    """They had the certificate beside the file with the key; a server that is upgraded goes on with them."""
    folder = tmp_path / "authority"
    authority = Authority(folder)
    authority.begin_rotation()
    for name in ("", "next-"):
        key, begin, certificate = (folder / f"{name}key.pem").read_text().partition("-----BEGIN CERTIFICATE")
        (folder / f"{name}key.pem").write_text(key)
        (folder / f"{name}certificate.pem").write_text(begin + certificate)
    assert Authority(folder).trusted == authority.trusted
    assert Authority(folder).trusted == authority.trusted


def test_a_root_that_cannot_be_used(tmp_path: Path) -> None:
    """It is told before anything listens."""
    folder, other = tmp_path / "authority", tmp_path / "other"
    own, foreign = ((each, Authority(each))[0] / "key.pem" for each in (folder, other))
    key, _, _ = own.read_text().partition("-----BEGIN CERTIFICATE")
    _, _, certificate = foreign.read_text().partition("-----BEGIN CERTIFICATE")
    (folder / "certificate.pem").unlink()
    for content, told in (
        (f"{key}-----BEGIN CERTIFICATE{certificate}", "of another key"),
        (key, "has no certificate"),
        ("nonsense", "authority: cannot use"),
    ):
        own.write_text(content)
        with pytest.raises(InvalidSettings, match=told):
            Authority(folder)
    own.chmod(0o644)
    with pytest.raises(InvalidSettings, match="chmod 600"):
        Authority(folder)


def test_what_it_signs(tmp_path: Path) -> None:
    """The name is the one that it was told, whatever the request says. Clocks far in the past accept it, too."""
    authority = Authority(tmp_path / "authority")
    key = make_key()
    names = [x509.UniformResourceIdentifier("scope:server"), x509.DNSName("server.scope.internal")]
    asked = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    signed = authority.sign(asked.public_bytes(serialization.Encoding.DER), ME)
    assert holder_of(signed).identity == ME
    found = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert found.get_values_for_type(x509.DNSName) == []
    assert not signed.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert signed.not_valid_before_utc.year == 2020
    assert abs(signed.not_valid_after_utc - datetime.now(UTC) - LIFETIME).total_seconds() < 60
    signed.verify_directly_issued_by(authority.certificate)


@pytest.mark.parametrize(
    "key", [ec.generate_private_key(ec.SECP384R1()), rsa.generate_private_key(65537, 2048)], ids=["P-384", "RSA"]
)
def test_other_keys_are_refused(tmp_path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    """TLS 1.2 is impossible only with the keys that SCOPE makes."""
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    with pytest.raises(InvalidMessage, match="signing_request: it must have an ECDSA key on P-256"):
        Authority(tmp_path / "authority").sign(request.public_bytes(serialization.Encoding.DER), ME)


def test_a_damaged_request(tmp_path: Path) -> None:
    """No damage has another key signed: all of the request that is used is under its signature."""
    authority, key = Authority(tmp_path / "authority"), make_key()
    request = signing_request(key)
    refused = 0
    for position in range(len(request)):
        damaged = request[:position] + bytes([request[position] ^ 1]) + request[position + 1 :]
        try:
            assert authority.sign(damaged, ME).public_key() == key.public_key()
        except InvalidMessage as error:
            assert str(error).startswith("signing_request: ")
            refused += 1
    assert refused > 0.9 * len(request)


def test_servers_that_share_it_change_it_one_at_a_time(tmp_path: Path) -> None:
    """Of servers that begin, or finish, at the same time, one does; the others are told. All agree then."""
    folder = tmp_path / "authority"
    with ThreadPoolExecutor(8) as pool:
        servers = list(pool.map(Authority, [folder] * 8))
        for step in (Authority.begin_rotation, Authority.finish_rotation):
            told = list(pool.map(partial(_tried, step), servers))
            assert sorted(told) == [*[False] * 7, True]
            for server in servers:
                server.reread()
            assert len({server.trusted for server in servers}) == 1


def _tried(step: Callable[[Authority], None], server: Authority) -> bool:
    try:
        step(server)
    except NotOurs:
        return False
    return True


def test_a_server_that_is_killed_while_it_replaces_the_root(tmp_path: Path) -> None:
    """At whatever file operation: the next server has one of both roots, finishes what was begun, and keeps of the
    replaced root what machines need that were away. The file with the certificate is of the root that it has."""
    lasted = 0
    for operation in itertools.count():
        folder = tmp_path / str(operation)
        authority = Authority(folder)
        first = authority.certificate
        authority.begin_rotation()
        following = authority.trusted[0]
        killed = _killed_at(operation, authority.finish_rotation)
        again = Authority(folder)
        if again.rotates:
            assert again.certificate == first
            again.finish_rotation()
        else:
            lasted += killed
        assert (again.certificate, again.replaced) == (following, (first,))
        again.vouched[0].verify_directly_issued_by(first)
        assert x509.load_pem_x509_certificate((folder / "certificate.pem").read_bytes()) == following
        again.begin_rotation()
        if not killed:
            break
    assert operation > 5
    assert lasted > 0


def _killed_at(operation: int, work: Callable[[], None]) -> bool:
    """Does the work in another process, which is killed before a file operation; whether it had so many."""
    if not (pid := os.fork()):
        left = itertools.count(operation, -1)
        sys.addaudithook(lambda event, _: os._exit(9) if event in _OPERATIONS and next(left) == 0 else None)
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
