"""PostgreSQL as a part of the stack."""

from scope_cli.flag import Flag
from scope_cli.stack.supervisor import PartEnded
from scope_server.errors import PostgresEnded, PostgresError
from scope_server.store.postgres import PrivatePostgres

_REASONS = ("PANIC:", "was terminated by signal")


class Database:
    """A private PostgreSQL; ready when it has started."""

    name = "PostgreSQL"

    def __init__(self, postgres: PrivatePostgres) -> None:
        self._postgres = postgres

    @property
    def pid(self) -> int | None:
        """The postmaster's pid; None if it does not run."""
        return self._postgres.pid

    def start(self, stop: Flag) -> None:
        """Starts PostgreSQL and waits until it answers; after a crash, this includes recovery.

        Raises:
            PartEnded: PostgreSQL did not start.
        """
        try:
            self._postgres.start(stop.is_set)
        except PostgresEnded as error:
            raise PartEnded("not started", str(error)) from None
        except PostgresError as error:
            raise PartEnded("not started", str(error), refused=True) from None

    def upkeep(self) -> None:
        """Maintains its log and its ballast."""
        self._postgres.upkeep()

    def ending(self) -> PartEnded:
        """How the postmaster ended, with the reason from its log if there is one."""
        status = self._postgres.status or 0
        how = f"killed by signal {-status}" if status < 0 else f"status {status}"
        reasons = [line for line in self._postgres.log.said() if any(word in line for word in _REASONS)]
        return PartEnded(how, reasons[-1].rpartition("] ")[2].strip() if reasons else "")

    def stop(self, hurry: Flag) -> None:
        """Stops PostgreSQL; with `hurry`, without a checkpoint, so the next start recovers."""
        self._postgres.stop(hurried=hurry.is_set)
