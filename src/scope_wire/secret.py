"""Files with a password or another secret, and nothing else."""

from pathlib import Path

from scope_wire.errors import InvalidSetting


def read_secret(file: Path, name: str) -> str:
    """The secret in a file: its only line, with all blanks.

    Args:
        file: where the secret is.
        name: of the setting that names the file, for errors.

    Raises:
        InvalidSetting: the file cannot be read, or does not have one line.
    """
    try:
        secret = file.read_text().rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{name}: cannot read {file}: {error}") from None
    if not secret or "\n" in secret:
        raise InvalidSetting(f"{name}: {file} must have one line, the secret")
    return secret
