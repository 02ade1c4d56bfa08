"""The server's settings: the password of the database has a file of its own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from scope_server.errors import InvalidSettings
from scope_server.redis.address import Address, address, without_password
from scope_server.settings import Settings
from scope_wire.errors import InvalidSetting

SILENCE = {"connect_timeout": "5", "keepalives_idle": "15", "keepalives_interval": "5", "tcp_user_timeout": "15000"}


def of(database: str, password_file: Path | None = None) -> Settings:
    files: dict[str, Any] = {"socket": Path("/api.sock"), "authority": Path("/authority"), "state_dir": Path("/state")}
    return Settings(database, **files, database_password_file=password_file)


def test_the_password_comes_from_its_file(tmp_path: Path) -> None:
    """Any character may be in the password, at any place; the line's end does not belong to it."""
    file = tmp_path / "password"
    file.write_text(" it's \\ here \n")
    wanted = {"host": "db", "dbname": "scope", "password": " it's \\ here ", **SILENCE}
    assert conninfo_to_dict(of("host=db dbname=scope", file).conninfo()) == wanted
    assert conninfo_to_dict(of("postgresql://db/scope", file).conninfo()) == wanted


def test_replicas_have_the_same_password(tmp_path: Path) -> None:
    """The password's file is also that of the replicas, and each has a connection string of its own."""
    file = tmp_path / "password"
    file.write_text("secret")
    settings = replace(
        of("host=db dbname=scope", file), read_database=("host=one dbname=scope", "postgresql://two/scope")
    )
    assert [conninfo_to_dict(text) for text in settings.replicas()] == [
        {"host": name, "dbname": "scope", "password": "secret", **SILENCE} for name in ("one", "two")
    ]
    with pytest.raises(InvalidSettings, match="read_database: is not a libpq connection string"):
        replace(settings, read_database=("host=one", "what="))


def test_a_silent_network_is_noticed_unless_the_connection_string_says_otherwise() -> None:
    """Every connection to the database breaks after some silence. What the string itself says is left as it is."""
    settings = replace(of("host=db"), direct_database="host=direct tcp_user_timeout=1000")
    assert conninfo_to_dict(settings.conninfo()) == {"host": "db", **SILENCE}
    assert conninfo_to_dict(settings.direct()) == {"host": "direct", **SILENCE, "tcp_user_timeout": "1000"}


def test_a_file_without_a_password_is_told(tmp_path: Path) -> None:
    """The error names the setting and the file."""
    file = tmp_path / "password"
    with pytest.raises(InvalidSettings, match=f"database_password_file: .*{file}"):
        of("host=db", file).conninfo()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("redis://r:7000/2", Address("redis://r:7000/2", "one")),
        ("rediss://u:p@r", Address("rediss://u:p@r", "one", username="u", password="p")),
        ("unix:///run/redis.sock?db=1", Address("unix:///run/redis.sock?db=1", "one")),
        (
            "redis+sentinel://:p@a,b:7/main",
            Address("", "sentinel", (("a", 26379), ("b", 7)), "main", password="p"),
        ),
        (
            "rediss+cluster://a,[::1]:7?ssl_ca_certs=/ca.pem",
            Address("", "cluster", (("a", 6379), ("::1", 7)), tls=True, authority="/ca.pem"),
        ),
    ],
)
def test_forms_of_redis(text: str, wanted: Address) -> None:
    """One server, Sentinel and Cluster each have their form."""
    assert address(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "r:6379",
        "http://r",
        "redis://",
        "redis://r:secret",
        "redis+sentinel://a",
        "redis+cluster://a/x",
        "redis+x://a",
    ],
)
def test_what_is_no_redis_is_told(text: str) -> None:
    """The error says how to write it, and has nothing of a password."""
    with pytest.raises(InvalidSetting, match="redis: is no address of a Redis; write it as redis://") as told:
        address(text)
    assert "secret" not in str(told.value)


def test_the_password_of_redis_is_not_shown(tmp_path: Path) -> None:
    """Neither that of the address, nor that of the file, which counts before it."""
    assert without_password("rediss://u:p@r:1/2") == "rediss://u:***@r:1/2"
    assert without_password("redis+cluster://:p@a,b:1") == "redis+cluster://:***@a,b:1"
    assert without_password("redis://r/0?password=p&db=1") == "redis://r/0?password=***&db=1"
    file = tmp_path / "password"
    file.write_text("from the file\n")
    files: dict[str, Any] = {"socket": Path("/api.sock"), "authority": Path("/authority"), "state_dir": Path("/state")}
    found = Settings("host=db", **files, redis="redis://r", redis_password_file=file).redis_address()
    assert found and found.password == "from the file"


@pytest.mark.parametrize("role", ["receive", "write", "api"])
def test_a_part_of_a_server_needs_others(role: str) -> None:
    """A server that is alone does all; a role needs a Redis."""
    files: dict[str, Any] = {"socket": Path("/api.sock"), "authority": Path("/authority"), "state_dir": Path("/state")}
    with pytest.raises(InvalidSettings, match=f"role: .*{role} needs redis"):
        Settings("host=db", **files, role=role)
    assert Settings("host=db", **files, role=role, redis="redis://r").role == role


def test_the_password_of_sentinels(tmp_path: Path) -> None:
    """It is another one than that of Redis, and without Sentinels an error."""
    file = tmp_path / "password"
    file.write_text("of them\n")
    files: dict[str, Any] = {"socket": Path("/api.sock"), "authority": Path("/authority"), "state_dir": Path("/state")}
    settings = Settings("host=db", **files, redis="redis+sentinel://:p@a/main", sentinel_password_file=file)
    found = settings.redis_address()
    assert found and (found.password, found.sentinel_password) == ("p", "of them")
    with pytest.raises(InvalidSettings, match="sentinel_password_file: `redis` has no Sentinels"):
        replace(settings, redis="redis://r").redis_address()
