"""C++ names."""

from scope_bpf.binding.demangle import demangle


def test_names() -> None:
    """What is mangled is made readable; what is not, or is damaged, stays."""
    assert demangle("_Z3addIfEvPT_PKS0_i") == "void add<float>(float*, float const*, int)"
    assert demangle("triton_softmax_0d1d") == "triton_softmax_0d1d"
    assert demangle("_Znonsense") == "_Znonsense"
    assert demangle("") == ""
