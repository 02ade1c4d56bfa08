"""The agent's spool on disk: everything that is to be sent lies here until the server has settled it.

On its way in: spool (the only public part) - keeper (the limit, full and broken disks) - log (the segments) - home (the
directory) - layout (a segment's bytes) - entries (what they hold) - runs (which are open, how far their streams are).
What cannot be written waits in overflow; syncer makes the rest durable. On its way out: outbox - reader - segment (what
became of each record) - deferral (those for later). What is lost: remains (of a segment that goes) - timeline (finds
what damage took) - losses - spans - gaps. After a start: recovery.
"""

from scope_agentd.pipeline.spool.outbox import Outcome, Spooled
from scope_agentd.pipeline.spool.runs import OpenRun, StreamPosition
from scope_agentd.pipeline.spool.spool import Held, Spool

__all__ = ["Held", "OpenRun", "Outcome", "Spool", "Spooled", "StreamPosition"]
