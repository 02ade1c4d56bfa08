"""Rows of every stream, in the shape in which agents send them: made from the types of the catalogue's columns."""

import time
from typing import Any

import pyarrow as pa
from tests.integration.server.records import STORED, Line, Run
from tests.integration.server.tables import TABLES

ROWS = 31
# Values that conditions of dashboards and rollups ask for; all other values are made from the column's type.
_GIVEN: dict[str, Any] = {"nested": 0, "draft": 0, "ended": 0, "pid": 4711, "start_ns": 500, "ends_line": 1}
# Names that conditions look for.
_NAMES = {
    ("cuda_call", "function"): ("cudaDeviceSynchronize", "cudaMalloc", "cudaMemcpy"),
    ("ggml_operation", "function"): ("ggml_compute_forward_mul_mat", "mul_mat_vec_q", "ggml_compute_forward_add"),
}


def told(stream: str) -> pa.RecordBatch:
    """`ROWS` rows of a stream, one a second."""
    columns = {field.name: _values(stream, field) for field in TABLES[stream].schema}
    columns["ktime_ns"] = [number * 10**9 for number in range(ROWS)]
    return pa.RecordBatch.from_pydict(columns, schema=TABLES[stream].schema)


async def tell_every_stream(line: Line) -> None:
    """Sends rows of every stream, of the last minute."""
    since = (time.time_ns() - ROWS * 10**9) // 1000 * 1000
    run = Run()
    await line.send(run.start())
    batches = [run.batch(1, told(stream), stream=stream, emitted=ROWS + 2, boot_to_utc_ns=since) for stream in TABLES]
    answers = await line.send(*batches)
    assert [answer.verdict for answer in answers] == [STORED] * len(TABLES)
    await line.send(*(run.gap((2, 2, 2), stream=stream, boot_to_utc_ns=since) for stream in TABLES))


def _values(stream: str, field: pa.Field) -> list[Any]:
    name, type_ = field.name, field.type
    if names := _NAMES.get((stream, name)):
        return [names[number % 3] for number in range(ROWS)]
    if name in _GIVEN and not pa.types.is_dictionary(type_):
        return [_GIVEN[name]] * ROWS
    if pa.types.is_fixed_size_list(type_):
        return [[number % 2] * type_.list_size for number in range(ROWS)]
    if pa.types.is_list(type_):
        return [["a", "b"]] * ROWS
    return [_value(name, type_, number) for number in range(ROWS)]


def _value(name: str, type_: pa.DataType, number: int) -> Any:
    if name == "stack":
        return f"main;run;step {number % 3}"
    if pa.types.is_dictionary(type_) or pa.types.is_string(type_):
        return f"{name} {number % 3}"
    if name.endswith("_truncated"):
        return number % 2
    if pa.types.is_boolean(type_):
        return number % 2 == 0
    return 1000 * (number + 1) if type_.bit_width >= 64 else number + 1
