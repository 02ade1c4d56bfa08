"""Counts refused peers by reason, and logs them at a bounded rate."""

import logging
from collections import Counter
from enum import StrEnum

from scope_wire.refused.rate import Rate

log = logging.getLogger(__name__)


class Reason(StrEnum):
    """Why a peer is refused."""

    NO_CERTIFICATE = "no_certificate"
    AUTHORITY = "wrong_authority"
    EXPIRED = "expired"
    REVOKED = "revoked"
    REMOVED = "removed"
    PLAIN_TEXT = "plain_text"
    OTHER_MACHINE = "another_machine"
    NOT_A_MACHINE = "not_a_machine"
    NOT_A_PERSON = "not_a_person"
    ROLE = "role"
    TOKEN = "token"
    INVALID = "invalid"
    HANDSHAKE = "handshake"
    CALLS = "calls"


class Refusals:
    """The refused peers of all services of a process.

    Attributes:
        counts: by reason, since the process's start.
    """

    def __init__(self) -> None:
        self.counts: Counter[Reason] = Counter()
        self._rate = Rate()

    def note(self, reason: Reason, said: str, peer: str = "") -> None:
        """Counts a refusal; logs it, unless another one with its reason was logged just before."""
        self.counts[reason] += 1
        if since_last := self._rate.due(reason):
            extra = {"reason": reason.value, "said": said, "peer": peer, "since_last": since_last}
            log.warning("a peer was refused", extra=extra)
