"""Everything that scope_wire raises descends from `WireError`. A message says what to do."""


class WireError(Exception):
    """Root of this package's errors."""


class DamagedRecord(WireError, ValueError):
    """Bytes that are no record, or not the one that was written."""


class InvalidAddress(WireError, ValueError):
    """An address that cannot be used; the message names the setting."""


class InvalidToken(WireError, ValueError):
    """A token file that cannot be used; the message names it and the remedy."""
