"""Columns are split into pieces within the limit: each row once, in order, with its dictionary entries."""

import numpy as np
import pyarrow as pa

from scope_agentd.pipeline.columns import compressed

LIMIT = 64 << 10


def _text(seed: int, size: int) -> str:
    """Text that does not compress."""
    return np.random.default_rng(seed).bytes(size).hex()


def _pieces(columns: pa.RecordBatch) -> list[tuple[pa.RecordBatch, bytes | None]]:
    return list(compressed(columns, LIMIT))


def _stacks(count: int, size: int) -> pa.RecordBatch:
    texts = pa.array([_text(number, size) for number in range(count)]).dictionary_encode()
    return pa.RecordBatch.from_arrays([pa.array(range(count)), texts], names=["n", "stack"])


def test_what_fits_is_one_piece() -> None:
    """Columns within the limit become one piece, which reads back unchanged."""
    columns = _stacks(11, 100)
    ((piece, ipc),) = _pieces(columns)
    assert piece.equals(columns) and ipc
    assert pa.ipc.open_stream(ipc).read_all().to_batches()[0].equals(columns)


def test_a_dictionary_beyond_the_limit_is_split_with_its_rows() -> None:
    """2,003 stacks of about 40 times the limit become fewer than 200 pieces, each within the limit; no row is lost."""
    columns = _stacks(2_003, 600)
    pieces = _pieces(columns)
    assert all(ipc is not None and len(ipc) <= LIMIT for _, ipc in pieces)
    assert len(pieces) < 200
    read = pa.concat_tables([pa.ipc.open_stream(ipc).read_all() for _, ipc in pieces]).unify_dictionaries()
    assert read["n"].to_pylist() == list(range(2_003))
    assert read["stack"].to_pylist() == columns["stack"].to_pylist()
    assert {piece.schema for piece, _ in pieces} == {columns.schema}


def test_a_row_that_alone_is_too_large_is_given_without_bytes() -> None:
    """A row that alone exceeds the limit gets no bytes; the rows before and after it do."""
    texts = ["small", _text(1, LIMIT), "also small"]
    columns = pa.RecordBatch.from_pydict({"text": texts})
    assert [(piece.num_rows, ipc is None) for piece, ipc in _pieces(columns)] == [(1, False), (1, True), (1, False)]
