"""The agent's spool: records wait on disk until the server has settled them.

Writing: spool (the only public module), keeper (the limit, full and broken disks), log (all segments), home (the
directory), layout (the format of a segment), entries (the contents of frames), runs (open runs and the positions of
their streams), overflow (records that cannot be written yet), syncer (makes records durable). Sending: outbox, reader,
segment (the state of each record), deferral (records to resend later). Losses: remains (of a dropped segment), timeline
(finds missing records), losses, spans, gaps. At start: recovery.
"""

from scope_agentd.pipeline.spool.outbox import Outcome, Spooled
from scope_agentd.pipeline.spool.runs import OpenRun, StreamPosition
from scope_agentd.pipeline.spool.spool import Held, Spool

__all__ = ["Held", "OpenRun", "Outcome", "Spool", "Spooled", "StreamPosition"]
