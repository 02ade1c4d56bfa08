"""Retention: limits the age and size of stored data, and keeps the disk from filling up.

`disk` is the database's file system; `days` measures the data per day; `calendar` gives the current day; `policy`
chooses the day to delete; `drop` deletes its tables. `sweep` deletes texts and processes that nothing refers to,
`closed` deletes old tasks. `retention` runs all of these.
"""

from scope_server.store.retention.closed import Closed
from scope_server.store.retention.disk import Disk
from scope_server.store.retention.policy import Reason
from scope_server.store.retention.retention import Retention, Storage
from scope_server.store.retention.sweep import Sweep

__all__ = ["Closed", "Disk", "Reason", "Retention", "Storage", "Sweep"]
