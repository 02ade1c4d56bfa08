"""The writers' connection, which one thread uses, and which another may cancel."""

import itertools
import threading
from collections.abc import Callable

import psycopg
import pyarrow as pa
import pytest

from scope_server.store.writing.connection import WriterConnection, integers


def test_nothing_is_cancelled_while_the_connection_is_freed(
    empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver would use memory that it has freed: closing waits for a cancel, then nothing can be cancelled."""
    connection = WriterConnection(empty_database)
    driver, done = connection._driver, list[str]()
    begun, may_end = threading.Event(), threading.Event()
    cancel, close = driver.cancel, driver.close

    def slow_cancel() -> None:
        begun.set()
        may_end.wait(60)
        cancel()
        done.append("cancelled")

    def told_close() -> None:
        done.append("closed")
        close()

    monkeypatch.setattr(driver, "cancel", slow_cancel)
    monkeypatch.setattr(driver, "close", told_close)
    threads = [threading.Thread(target=connection.cancel), threading.Thread(target=connection.close)]
    threads[0].start()
    assert begun.wait(60)
    threads[1].start()
    threads[1].join(0.1)
    may_end.set()
    for thread in threads:
        thread.join(60)
    connection.cancel()
    assert done == ["cancelled", "closed"]


def test_what_is_rolled_back_is_gone_whatever_came_before(empty_database: str) -> None:
    """The driver begins a transaction with the first statement. One that it forgot would store half of a batch."""
    connection = WriterConnection(empty_database)
    connection.query("CREATE TABLE public.t (a bigint)")
    connection.commit()
    steps: dict[str, Callable[[], object]] = {
        "read": lambda: connection.query("SELECT 1 AS a"),
        "read what is bound": lambda: connection.query("SELECT $1::bigint[] AS a", {"a": integers([1, 2])}),
        "insert": lambda: connection.query("INSERT INTO public.t VALUES (1)"),
        "insert and read": lambda: connection.query("INSERT INTO public.t VALUES (1) RETURNING a"),
        "ingest": lambda: connection.ingest("public", "t", pa.table({"a": integers([1])})),
        "commit": connection.commit,
        "roll back": connection.rollback,
    }
    with psycopg.connect(empty_database, autocommit=True) as other:

        def rows() -> int:
            (count,) = other.execute("SELECT count(*) FROM public.t").fetchone() or (0,)
            return int(count)

        for before in itertools.product(steps, repeat=2):
            for last in ("insert", "insert and read", "ingest"):
                for step in before:
                    steps[step]()
                connection.commit()
                committed = rows()
                steps[last]()
                assert rows() == committed, (*before, "commit", last)
                connection.rollback()
                assert rows() == committed, (*before, "commit", last, "roll back")
    connection.close()
