"""Retention: keeps what is stored within a time and a number of bytes, and the disk from running full.

`disk` is the file system that the database lies on; `days` measures what there is by day; `calendar` says which day it
is; `policy` chooses a day that goes; `drop` takes its tables away; `sweep` what nothing refers to any more; `closed`
tasks whose books are closed; and `retention` does these in turn.
"""

from scope_server.store.retention.closed import Closed
from scope_server.store.retention.disk import Disk
from scope_server.store.retention.policy import Reason
from scope_server.store.retention.retention import Retention, Storage
from scope_server.store.retention.sweep import Sweep

__all__ = ["Closed", "Disk", "Reason", "Retention", "Storage", "Sweep"]
