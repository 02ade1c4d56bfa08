"""Python frames among native ones."""

from scope_bpf.code.python.merging import Group, Native, merged

EVAL = "_PyEval_EvalFrameDefault"


def native(*texts: str) -> list[Native]:
    """Frames, innermost first; those of the interpreter begin with Py or _Py."""
    return [Native(text, text.startswith(("Py", "_Py"))) for text in texts]


def test_without_python() -> None:
    """The native frames alone, outermost first."""
    assert merged(native("leaf", "main", "_start"), []) == ["_start", "main", "leaf"]


def test_a_group_is_where_its_function_is() -> None:
    """The function of the interpreter that runs a group is replaced by the group."""
    groups = [Group(("inner", "outer"), 1), Group(("module",), 3)]
    stack = native("PyLong_Add", "Py_cold", "PyObject_Call", "Py_hot", "main")
    assert merged(stack, groups) == ["main", "module", "PyObject_Call", "outer", "inner", "PyLong_Add"]


def test_groups_without_a_place_are_found_by_name() -> None:
    """From the innermost on."""
    stack = native("PyLong_Add", EVAL, "PyObject_Call", f"{EVAL}.cold", "main")
    groups = [Group(("inner",)), Group(("module",))]
    assert merged(stack, groups) == ["main", "module", "PyObject_Call", "inner", "PyLong_Add"]


def test_groups_that_are_left_over_are_around_all_that_is_clear() -> None:
    """The native stack ended early: what was outside of its last known function is left out."""
    stack = native("PyLong_Add", EVAL, "PyObject_Call", "nonsense")
    groups = [Group(("inner",)), Group(("middle",)), Group(("module",))]
    assert merged(stack, groups) == ["module", "middle", "inner", "PyLong_Add"]


def test_no_group_has_a_place() -> None:
    """Only native frames up to the first one of the interpreter are surely inside the innermost Python frame."""
    stack = native("memcpy", "numpy_add", "Py_unknown", "main")
    assert merged(stack, [Group(("inner", "module"))]) == ["module", "inner", "numpy_add", "memcpy"]
    assert merged(native("Py_unknown", "main"), [Group(("module",))]) == ["module", "Py_unknown"]


def test_a_function_that_runs_nothing_yet_keeps_its_name() -> None:
    """The interpreter was about to make a frame."""
    assert merged(native(EVAL, EVAL, "main"), [Group(("module",), 1)]) == ["main", "module", EVAL]


def test_places_that_contradict_each_other_are_not_used() -> None:
    """An outer group cannot be further inside."""
    groups = [Group(("inner",), 2), Group(("module",), 1)]
    assert merged(native("leaf", "a", "b", "main"), groups) == ["module", "inner", "a", "leaf"]
