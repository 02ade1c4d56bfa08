"""Where CPython keeps the names of a function that runs, by version."""

from dataclasses import dataclass

EVALUATES = "_PyEval_EvalFrameDefault"  # since CPython 3.6, Python/ceval.c; since 3.11 not once per call


@dataclass(frozen=True)
class PythonLayout:
    """Offsets in PyFrameObject (Include/frameobject.h) and PyCodeObject (Include/code.h).

    Attributes:
        versions: those that it holds for.
        second: the frame is the second argument of EVALUATES, Include/internal/pycore_ceval.h.
    """

    versions: str
    frame_code: int
    code_line: int
    code_file: int
    code_function: int
    second: bool


LAYOUTS = (
    PythonLayout("3.6, 3.7", frame_code=32, code_line=36, code_file=96, code_function=104, second=False),
    PythonLayout("3.8", frame_code=32, code_line=40, code_file=104, code_function=112, second=False),
    PythonLayout("3.9, 3.10", frame_code=32, code_line=40, code_file=104, code_function=112, second=True),
)
