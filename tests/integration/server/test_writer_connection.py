"""The writers' connection, which one thread uses, and which another may cancel."""

import threading

import pytest

from scope_server.store.writing.connection import WriterConnection


def test_nothing_is_cancelled_while_the_connection_is_freed(
    empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver would use memory that it has freed: closing waits for a cancel, then nothing can be cancelled."""
    connection = WriterConnection(empty_database)
    driver, done = connection._connection, list[str]()
    begun, may_end = threading.Event(), threading.Event()
    cancel, close = driver.adbc_cancel, driver.close

    def slow_cancel() -> None:
        begun.set()
        may_end.wait(60)
        cancel()
        done.append("cancelled")

    def told_close() -> None:
        done.append("closed")
        close()

    monkeypatch.setattr(driver, "adbc_cancel", slow_cancel)
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
