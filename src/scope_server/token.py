"""The bearer token that the API and the ingest service ask for."""

import hmac
import os
import secrets
from pathlib import Path

from scope_server.errors import InvalidSettings


class Token:
    """The token in a file of mode 0600, which is made with a new one if it is missing.

    Raises:
        InvalidSettings: others may read the file.
    """

    def __init__(self, file: Path) -> None:
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
                out.write(secrets.token_urlsafe(32) + "\n")
        except FileExistsError:
            if file.stat().st_mode & 0o077:
                raise InvalidSettings(f"token_file: others may read {file}; `chmod 600` it") from None
        self.text = file.read_text().strip()

    def is_shown_by(self, authorization: object) -> bool:
        """Whether an `authorization` header shows it; takes as long for every wrong one."""
        return isinstance(authorization, str) and hmac.compare_digest(
            authorization.encode(), f"Bearer {self.text}".encode()
        )
