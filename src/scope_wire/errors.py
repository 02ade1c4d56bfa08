"""The errors of scope_wire. All are subclasses of `WireError`. A message says what to do."""


class WireError(Exception):
    """Root of this package's errors."""


class DamagedRecord(WireError, ValueError):
    """The bytes are not a record, or not the record that was written."""


class DamagedMessage(WireError, ValueError):
    """A message of the local bus cannot be read, or has another version."""


class InvalidAddress(WireError, ValueError):
    """The address cannot be used; the message names the setting."""


class InvalidSetting(WireError, ValueError):
    """A setting has a value that is not allowed; the message names the setting."""


class InvalidToken(WireError, ValueError):
    """The token file cannot be used; the message names the file and the remedy."""


class InvalidCertificate(WireError, ValueError):
    """A certificate, or the name in it, is not one of SCOPE's, or of another key or authority."""


class InvalidKeyFile(WireError, ValueError):
    """The file with a key cannot be used; the message names the file and the remedy."""


class InvalidJoinToken(WireError, ValueError):
    """The text is not a token for joining."""
