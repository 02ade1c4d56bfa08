"""Demangling of C++ names."""

from scope_bpf.binding.demangle import demangle


def test_names() -> None:
    """Mangled names become readable. Other names and damaged ones stay as they are."""
    assert demangle("_Z3addIfEvPT_PKS0_i") == "void add<float>(float*, float const*, int)"
    assert demangle("triton_softmax_0d1d") == "triton_softmax_0d1d"
    assert demangle("_Znonsense") == "_Znonsense"
    assert demangle("") == ""
