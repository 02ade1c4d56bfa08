"""Tokens with which machines join."""

from pathlib import Path

import pytest

from scope_server.identity.authority import Authority
from scope_wire.errors import InvalidJoinToken
from scope_wire.join_token import JoinToken, digest_of


def test_a_token_is_read_as_written(tmp_path: Path) -> None:
    """Each token is another one; it says of which authority it is, and its digest does not tell the secret."""
    authority = Authority(tmp_path / "authority").certificate
    token, other = JoinToken.make(authority), JoinToken.make(authority)
    assert JoinToken.read(f" {token}\n") == token
    assert token.authority == digest_of(authority)
    assert token.secret != other.secret
    assert token.secret_digest not in (token.secret, other.secret_digest)


@pytest.mark.parametrize("change", ["", "x", "scope-join-", "scope-join-" + "!" * 64, "join-" + "a" * 64])
def test_other_texts_are_none(change: str) -> None:
    """The error says where tokens come from."""
    with pytest.raises(InvalidJoinToken, match="scope admin join-token"):
        JoinToken.read(change)
