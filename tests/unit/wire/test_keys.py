"""Files with a key, its certificate and its authority."""

from pathlib import Path

import pytest
from tests.fleet import of_person

from scope_server.identity.authority import Authority
from scope_wire.errors import InvalidCertificate, InvalidKeyFile
from scope_wire.keys import Credentials, make_key, pem_of


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def test_a_file_is_read_as_written(authority: Authority, tmp_path: Path) -> None:
    """Only its owner may read it; an earlier one is replaced."""
    for _ in range(2):
        own = of_person(authority)
        own.write(tmp_path / "me.pem")
        found = Credentials.read(tmp_path / "me.pem")
        assert (found.certificate, found.authorities) == (own.certificate, own.authorities)
        assert pem_of(found.key) == pem_of(own.key)
        assert (tmp_path / "me.pem").stat().st_mode & 0o777 == 0o600


def test_parts_belong_together(authority: Authority, tmp_path: Path) -> None:
    """A certificate of another key or authority is refused."""
    own, strange = of_person(authority), of_person(Authority(tmp_path / "other"))
    with pytest.raises(InvalidCertificate, match="another key"):
        Credentials(make_key(), own.certificate, own.authorities)
    with pytest.raises(InvalidCertificate, match="another authority"):
        Credentials(own.key, own.certificate, strange.authorities)


def test_a_file_that_cannot_be_used_is_told(authority: Authority, tmp_path: Path) -> None:
    """The error names the file, and what to do."""
    file = tmp_path / "me.pem"
    with pytest.raises(InvalidKeyFile, match=f"cannot read {file}: No such file"):
        Credentials.read(file)
    own = of_person(authority)
    own.write(file)
    file.chmod(0o640)
    with pytest.raises(InvalidKeyFile, match=f"chmod 600 {file}"):
        Credentials.read(file)
    for damaged in (b"", pem_of(own.key), pem_of(own.key) + pem_of(own.certificate), b"-----BEGIN nonsense"):
        file.unlink()
        file.touch(0o600)
        file.write_bytes(damaged)
        with pytest.raises(InvalidKeyFile, match=f"{file} has no key with"):
            Credentials.read(file)
