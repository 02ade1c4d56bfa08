"""The errors of scope_wire. All are subclasses of `WireError`. A message says what to do."""


class WireError(Exception):
    """Root of this package's errors."""


class DamagedRecord(WireError, ValueError):
    """The bytes are not a record, or not the record that was written."""


class InvalidAddress(WireError, ValueError):
    """The address cannot be used; the message names the setting."""


class InvalidToken(WireError, ValueError):
    """The token file cannot be used; the message names the file and the remedy."""
