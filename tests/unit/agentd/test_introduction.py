"""Which roots follow those that a machine trusts."""

from scope_agentd.identity.introduction import followed
from scope_server.identity.root import Root
from scope_wire.identity import Identity, Kind
from scope_wire.keys import make_key, require_signed

FIRST, SECOND, THIRD, OTHER = (Root.make() for _ in range(4))
VOUCHED = FIRST.vouch_for(SECOND), SECOND.vouch_for(THIRD)


def test_each_root_vouches_for_the_next() -> None:
    """Who trusts the first or the second knows the third, and what it has signed."""
    of_server = THIRD.sign(make_key().public_key(), Identity(Kind.SERVER))
    for root in (FIRST, SECOND):
        require_signed(of_server, *followed((root.certificate,), VOUCHED))


def test_others_vouch_for_nobody() -> None:
    """Neither a root that is not trusted, nor a machine or person whose key the root has signed."""
    assert followed((FIRST.certificate,), (OTHER.vouch_for(THIRD),)) == (FIRST.certificate,)
    key = make_key()
    member = FIRST.sign(key.public_key(), Identity(Kind.MACHINE, "0" * 32))
    vouched_by_member = Root(key, member).vouch_for(THIRD)
    assert followed((FIRST.certificate,), (member, vouched_by_member)) == (FIRST.certificate,)
    assert followed((THIRD.certificate,), VOUCHED) == (THIRD.certificate,), "an older root is not trusted again"
