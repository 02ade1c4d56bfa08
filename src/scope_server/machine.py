"""The machine that an agent speaks for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """A machine, as its agent announced it in the Hello of a stream.

    Attributes:
        key: of its row in `store.machines`.
        installation: of the agent's state directory, a UUID.
        boot_to_utc_ns: added to the machine's CLOCK_BOOTTIME it gives this server's time; a whole number of µs. Rows
            whose own time is implausible are dated with it.
    """

    key: int
    machine_id: str
    installation: str
    boot_to_utc_ns: int
