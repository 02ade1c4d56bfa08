"""The server's settings: the password of the database has a file of its own."""

from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from scope_server.errors import InvalidSettings
from scope_server.settings import Settings


def of(database: str, password_file: Path | None = None) -> Settings:
    files = {"socket": Path("/api.sock"), "authority": Path("/authority"), "state_dir": Path("/state")}
    return Settings(database, **files, database_password_file=password_file)


def test_the_password_comes_from_its_file(tmp_path: Path) -> None:
    """Any character may be in the password, at any place; the line's end does not belong to it."""
    file = tmp_path / "password"
    file.write_text(" it's \\ here \n")
    wanted = {"host": "db", "dbname": "scope", "password": " it's \\ here "}
    assert conninfo_to_dict(of("host=db dbname=scope", file).conninfo()) == wanted
    assert conninfo_to_dict(of("postgresql://db/scope", file).conninfo()) == wanted


def test_without_a_file_the_connection_string_is_as_given() -> None:
    """Without a password file, nothing is added."""
    assert of("host=db").conninfo() == "host=db"


@pytest.mark.parametrize("content", [b"", b"\n", b"one\ntwo\n", b"\xff", None])
def test_a_file_without_a_password_is_told(content: bytes | None, tmp_path: Path) -> None:
    """The error names the setting and the file, and has nothing of what stands in the file."""
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidSettings, match=f"database_password_file: .*{file}") as told:
        of("host=db", file).conninfo()
    assert "two" not in str(told.value)
