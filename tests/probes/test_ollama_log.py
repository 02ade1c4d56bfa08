"""`ollama`: the log, from a program that calls the functions of Ollama, llama.cpp and ggml."""

from collections import Counter
from collections.abc import Callable

from tests.probes.ollama_rows import told
from tests.probes.recording import Record


def test_the_log_by_level(record: Record, workload: Callable[[str], str]) -> None:
    """Each call of Ollama's function is a row with level and text; levels below the option's are left out, with what
    continues them."""
    recorded = record("ollama", [workload("logs")], level="debug")
    rows = [row for row in recorded.rows("ollama_log") if row["function"] == "llamaLog"]
    lines = Counter(row["level"] for row in rows if row["text"] == "a line")
    assert lines == {"debug": 7, "info": 11, "warn": 13, "error": 3}
    assert told(rows[34:39], "level", "text", "ends_line") == [
        ("info", "begins, ", 0),
        ("cont", "goes on, ", 0),
        ("cont", "ends", 1),
        ("debug", "begins unseen, ", 0),
        ("cont", "ends unseen", 1),
    ]
    assert told(rows[39:], "level", "level_number", "text", "text_truncated") == [
        ("error", 4, "x" * 1023, 1),
        ("error", 4, "x" * 1023, 0),
        ("none", 0, "", 0),
        (None, 77, "what level?", 0),
    ]
    fewer = record("ollama", [workload("logs")], level="warn")
    rows = [row for row in fewer.rows("ollama_log") if row["function"] == "llamaLog"]
    assert [row["level"] for row in rows] == ["warn"] * 13 + ["error"] * 5 + ["none", None]
    assert recorded.accounts["ollama_log"].lost == {}


def test_levels_of_other_functions(record: Record, workload: Callable[[str], str]) -> None:
    """Functions that are older than today's order of levels have the number, not the name."""
    recorded = record("ollama", [workload("logs")])
    rows = [row for row in recorded.rows("ollama_log") if row["function"] != "llamaLog"]
    assert Counter((row["function"], row["level"], row["level_number"], row["text"]) for row in rows) == {
        ("common_log_default_callback", "warn", 3, "common"): 5,
        ("llama_log_callback_default", None, 1, "llama"): 17,
        ("ggml_log_callback_default", None, 1, "ggml"): 19,
    }
