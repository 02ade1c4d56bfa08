"""What a daemon tells the service manager that started it: the protocol of sd_notify(3), one datagram a message.

systemd gives the socket in NOTIFY_SOCKET, and in WATCHDOG_USEC how often it expects a sign of life; so do others, such
as Podman. Without these variables, nothing is sent.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping

_PATIENCE_S = 1.0  # of a service manager that does not read its messages
_log = logging.getLogger(__name__)


class Notifier:
    """Tells the service manager that the variables name."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address  # unix(7): an abstract socket
        period_us = environment.get("WATCHDOG_USEC", "")
        watches = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._period_s = int(period_us) / 1e6 if watches and period_us.isdecimal() else 0.0

    def ready(self) -> None:
        """The daemon does its work now."""
        self._send("READY=1\nSTATUS=Running")

    def waiting(self, what: str) -> None:
        """The daemon has started but waits for something before it is ready."""
        self._send(f"STATUS=Waiting for {what}")

    def stopping(self) -> None:
        """The daemon ends in order."""
        self._send("STOPPING=1\nSTATUS=Ending")

    async def watch(self) -> None:
        """Sends signs of life from the event loop, three in the time after which the daemon counts as stuck."""
        while self._period_s:
            self._send("WATCHDOG=1")
            await asyncio.sleep(self._period_s / 3)

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.settimeout(_PATIENCE_S)
                sender.sendto(message.encode(), self._address)
        except OSError as error:
            _log.warning("cannot tell the service manager", extra={"what": message, "reason": str(error)})
