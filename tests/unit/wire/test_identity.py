"""Names in certificates."""

from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from tests.fleet import of_person

from scope_server.identity.authority import Authority
from scope_wire.errors import InvalidCertificate
from scope_wire.identity import Identity, Kind, Role, caller_of, dns_names, holder_of, read_certificate
from scope_wire.keys import pem_of

MACHINE = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("identity", "uri", "dns"),
    [
        (
            Identity(Kind.MACHINE, MACHINE),
            f"scope:machine/{MACHINE}",
            ["agent.scope.internal", f"{MACHINE}.agent.scope.internal"],
        ),
        (Identity(Kind.OPERATOR, "a.b@c", Role.VIEWER), "scope:operator/viewer/a.b@c", []),
        (Identity(Kind.OPERATOR, "ada", Role.ADMIN), "scope:operator/admin/ada", []),
        (Identity(Kind.SERVER), "scope:server", ["server.scope.internal"]),
    ],
)
def test_a_name_is_read_as_written(identity: Identity, uri: str, dns: list[str]) -> None:
    """A URI names one identity; only a server has the DNS name that agents ask for."""
    assert identity.uri == uri
    assert Identity.of_uri(uri) == identity
    assert dns_names(identity) == dns


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "scope:",
        "scope:machine",
        "scope:machine/short",
        f"scope:machine/{MACHINE}/more",
        f"scope:machine/{MACHINE.upper()}",
        f"http:machine/{MACHINE}",
        "scope:operator/viewer",
        "scope:operator/owner/me",
        "scope:operator/viewer/",
        "scope:operator/viewer/a b",
        "scope:operator/viewer/" + "a" * 65,
        "scope:server/me",
        "scope:nobody",
    ],
)
def test_other_names_are_none(uri: str) -> None:
    """All else is refused."""
    with pytest.raises(InvalidCertificate):
        Identity.of_uri(uri)


@pytest.mark.parametrize("shown", [{}, {"x509_pem_cert": []}, {"x509_pem_cert": [b"nonsense"]}])
def test_a_connection_without_a_certificate(shown: dict[str, list[bytes]]) -> None:
    """It has no caller."""
    with pytest.raises(InvalidCertificate, match="no certificate"):
        caller_of({"ssl_tls_version": [b"TLSv1.3"], **shown})


@pytest.mark.parametrize("version", [[], [b"TLSv1.2"]])
def test_another_version_of_tls(version: list[bytes], tmp_path: Path) -> None:
    """It has no caller, whatever its certificate."""
    own = of_person(Authority(tmp_path / "authority"))
    shown = {"x509_pem_cert": [pem_of(own.certificate)]}
    assert caller_of({**shown, "ssl_tls_version": [b"TLSv1.3"]}) == own.holder
    with pytest.raises(InvalidCertificate, match=r"TLS 1\.3"):
        caller_of({**shown, "ssl_tls_version": version})


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_damaged_certificates(tmp_path: Path) -> None:
    """Damaged bytes are a certificate or an error of ours, never another one."""
    signed = of_person(Authority(tmp_path / "authority")).certificate.public_bytes(Encoding.DER)
    for position in range(len(signed)):
        for bit in range(8):
            damaged = bytearray(signed)
            damaged[position] ^= 1 << bit
            with suppress(InvalidCertificate):
                holder_of(read_certificate(bytes(damaged)))
