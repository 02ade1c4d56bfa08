"""Where the database is: the setting `database`, a connection string of libpq."""

from scope_wire.errors import InvalidSetting

EXAMPLE = "host=/run/postgresql dbname=scope"


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


def with_password(text: str, password: str) -> str:
    """The connection string with this password, which may have any character, instead of its own."""
    from psycopg.conninfo import make_conninfo  # noqa: PLC0415  # as above

    return make_conninfo(text, password=password)


def without_password(text: str) -> str:
    """The connection string as others may see it."""
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415  # as above

    return with_password(text, "***") if "password" in conninfo_to_dict(text) else text
