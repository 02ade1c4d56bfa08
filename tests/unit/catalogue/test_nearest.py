"""Messages about unknown names suggest similar names."""

from scope_catalogue.nearest import meant, unknown


def test_the_nearest_are_suggested() -> None:
    """Similar names are suggested, the most similar first, in any case of letters; other names are not."""
    known = ["open", "openat", "openat2", "read", "close"]
    assert meant("opnat", known) == " (did you mean 'openat' or 'openat2' or 'open'?)"
    assert meant("READ", known) == " (did you mean 'read'?)"
    assert meant("xyz", known) == ""
    assert meant("", known) == meant("a" * 100_000, known) == meant("open", []) == ""


def test_a_sentence_names_what_there_is() -> None:
    """A message lists all known names if they are few; of many, only similar names."""
    assert unknown("column", "pth", ["ret", "path"]) == "no column 'pth' (did you mean 'path'?); there are: ret, path"
    assert unknown("column", "x", ["ret", "path"]) == "no column 'x'; there are: ret, path"
    assert unknown("column", "x", []) == "no column 'x'; there are: none"
    many = [f"call_{n}" for n in range(400)]
    assert unknown("call", "call_39x", many).startswith("no call 'call_39x' (did you mean 'call_39")
    assert unknown("call", "read", many) == "no call 'read'"
    assert unknown("call", "y" * 1000, many) == f"no call '{'y' * 60}…'"
