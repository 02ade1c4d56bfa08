"""Notices that a state directory is a copy of one that an agent was using, such as that of a cloned machine.

    STATE/place     which directory this is, while an agent uses it: boot id, device, inode, machine
    STATE/copied/   what was in a copied directory when an agent started in it

The runs, tasks and records in a copy belong to the agent of the original, which may go on with them. If the copy's
agent ended or sent them, events would be counted as lost that are not. So it begins without them, as a new
installation.

The file is deleted when an agent ends in order, so a directory without a running agent may be copied and moved freely.
After a restart of the machine only the inode must be the same, since devices may be numbered otherwise. The files of a
cloned disk have the same inodes, but a virtual machine that is made of it has another UUID (SMBIOS, Type 1).
"""

import logging
import shutil
from pathlib import Path

log = logging.getLogger(__name__)

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MACHINE = Path("/sys/class/dmi/id/product_uuid")  # for root, where there is firmware with SMBIOS
_UNKNOWN = "-"
_OF_THE_AGENT = ("installation-id", "spool", "runs", "tasks.json")  # the membership stays: the server judges it


class Place:
    """The place of a state directory.

    Raises:
        OSError: the directory cannot be read or written to.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir, self._file = state_dir, state_dir / "place"
        directory = state_dir.stat()
        self._here = [_BOOT_ID.read_text().strip(), str(directory.st_dev), str(directory.st_ino), _machine()]

    def claim(self) -> None:
        """Notes that an agent uses the directory. If it is a copy, first sets aside what is not this agent's."""
        if self._is_copy():
            self._set_aside()
        self._file.unlink(missing_ok=True)
        fresh = self._file.with_suffix(".new")
        try:
            fresh.write_text(" ".join(self._here) + "\n")
            fresh.replace(self._file)
        except OSError as error:  # on a full disk, too, the agent has to close the runs that a killed one left
            log.warning("a copy of the state directory would not be noticed", extra={"reason": error.strerror})
            fresh.unlink(missing_ok=True)

    def release(self) -> None:
        """Notes that the agent has ended in order."""
        try:
            self._file.unlink(missing_ok=True)
        except OSError as error:
            log.warning("cannot delete a file", extra={"file": str(self._file), "reason": error.strerror})

    def _is_copy(self) -> bool:
        try:
            boot, device, inode, machine = self._file.read_text().split()
        except (FileNotFoundError, ValueError):  # an agent ended in order here, or a power cut damaged the file
            return False
        here = self._here
        is_another_machine = machine != here[3] and _UNKNOWN not in (machine, here[3])
        return is_another_machine or inode != here[2] or (boot == here[0] and device != here[1])

    def _set_aside(self) -> None:
        aside = self._state_dir / "copied"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(mode=0o700)
        for name in _OF_THE_AGENT:
            if (self._state_dir / name).exists():
                (self._state_dir / name).rename(aside / name)
        log.error(
            "this state directory is a copy of one that an agent was using: its runs, tasks and records belong to that "
            "agent; starting as a new installation without them. If there is no other agent, stop this one and move "
            "them back",
            extra={"directory": str(self._state_dir), "set_aside": str(aside)},
        )


def _machine() -> str:
    try:
        return "".join(_MACHINE.read_text().split()) or _UNKNOWN
    except (OSError, UnicodeError):
        return _UNKNOWN
