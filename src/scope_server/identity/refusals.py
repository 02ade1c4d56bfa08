"""Counts refused peers by reason, and logs them at a bounded rate: a hostile peer fills no disk."""

import logging
import time
from collections import Counter
from enum import StrEnum

log = logging.getLogger(__name__)

_EACH_S = 10.0  # between two lines with the same reason


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
    TOKEN = "token"
    INVALID = "invalid"
    HANDSHAKE = "handshake"


class Refusals:
    """The refused peers of all services.

    Attributes:
        counts: by reason, since the server's start.
    """

    def __init__(self) -> None:
        self.counts: Counter[Reason] = Counter()
        self._told: dict[Reason, tuple[float, int]] = {}  # when it was logged last, and the count then

    def note(self, reason: Reason, said: str, peer: str = "") -> None:
        """Counts a refusal; logs it, unless another one with its reason was logged just before."""
        now = time.monotonic()
        self.counts[reason] += 1
        at, count = self._told.get(reason, (-_EACH_S, 0))
        if now - at < _EACH_S:
            return
        self._told[reason] = now, self.counts[reason]
        extra = {"reason": reason.value, "said": said, "peer": peer, "since_last": self.counts[reason] - count}
        log.warning("a peer was refused", extra=extra)
