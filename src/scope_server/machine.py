"""The machine of an agent."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """A machine, from its agent's Hello.

    Attributes:
        key: key of its row in `store.machines`.
        installation: installation id of the agent, a UUID.
        boot_to_utc_ns: added to the machine's CLOCK_BOOTTIME, it gives this server's time; a whole number of µs. Used
            for rows whose own time is implausible.
    """

    key: int
    machine_id: str
    installation: str
    boot_to_utc_ns: int
