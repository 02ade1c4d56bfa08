"""Which probes can run on this host: tried once, in a process of its own.

The process ends with all that probes load, which takes more memory than an idle agent has.
"""

import asyncio
import logging
import sys
from contextlib import suppress

from google.protobuf.message import DecodeError

from scope_agentd.control.catalogue import ALSO_OPTIONS
from scope_proto.scope.v1 import control_pb2

log = logging.getLogger(__name__)

_AGAIN_S = 60.0
_PROGRAM = (sys.executable, "-m", "scope_agentd.control.catalogue")


class Examination:
    """Begins some time after the agent's start, when its tasks have started, or when it is asked for earlier.

    Args:
        unasked_s: how long after the start, in seconds.
        options: probes are also tried with each option that loads other programs.
    """

    def __init__(self, unasked_s: float, *, options: bool) -> None:
        self._unasked_s, self._options = unasked_s, options
        self._asked = asyncio.Event()
        self._listed: asyncio.Future[control_pb2.ListProbesResponse] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Examines, after a failure again, until cancelled."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._unasked_s):
                await self._asked.wait()
        while not self._listed.done():
            try:
                self._listed.set_result(await _examine(*([ALSO_OPTIONS] if self._options else [])))
            except (OSError, DecodeError) as error:
                log.warning("the host's probes could not be tried", extra={"reason": str(error)})
                await asyncio.sleep(_AGAIN_S)
        await asyncio.Event().wait()

    async def listed(self, *, soon: bool) -> control_pb2.ListProbesResponse:
        """All probes, with when they were examined, as soon as that is known.

        Args:
            soon: somebody asks for it: if the examination has not begun, it begins now.
        """
        if soon:
            self._asked.set()
        return await asyncio.shield(self._listed)


async def _examine(*words: str) -> control_pb2.ListProbesResponse:
    process = await asyncio.create_subprocess_exec(
        *_PROGRAM,
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the agent, which ends the process
    )
    try:
        written, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        last = said.decode(errors="replace").strip().rpartition("\n")[2]
        raise OSError(f"the process ended with status {process.returncode}: {last}")
    return control_pb2.ListProbesResponse.FromString(written)
