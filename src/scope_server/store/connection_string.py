"""Where the database is: the setting `database`, a connection string of libpq."""

from typing import Any

from scope_wire.errors import InvalidSetting

EXAMPLE = "host=/run/postgresql dbname=scope"
# Of libpq. A request waits for the database no longer than its client for the answer, which is 30 s for `scope`.
_SILENCE: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "tcp_user_timeout": 15_000,
}


def connection_string(text: str, name: str = "database") -> None:
    """A check for connection strings.

    Raises:
        InvalidSetting: libpq cannot read it.
    """
    from psycopg import ProgrammingError  # noqa: PLC0415  # takes 0.1 s, which only a server has to pay
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        conninfo_to_dict(text)
    except ProgrammingError:  # its message may have a piece of a password
        raise InvalidSetting(f"{name}: is not a libpq connection string; write it as {EXAMPLE}") from None


def noticing_silence(text: str) -> str:
    """The connection string for connections that break when nothing has come over the network for 15 to 30 s.

    TCP alone waits a quarter of an hour. What the string itself says about that is left as it is.
    """
    from psycopg.conninfo import conninfo_to_dict, make_conninfo  # noqa: PLC0415  # as above

    given = conninfo_to_dict(text)
    return make_conninfo(text, **{name: value for name, value in _SILENCE.items() if name not in given})


def with_password(text: str, password: str) -> str:
    """The connection string with this password, which may have any character, instead of its own."""
    from psycopg.conninfo import make_conninfo  # noqa: PLC0415  # as above

    return make_conninfo(text, password=password)


def without_password(text: str) -> str:
    """The connection string as others may see it."""
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415  # as above

    return with_password(text, "***") if "password" in conninfo_to_dict(text) else text
