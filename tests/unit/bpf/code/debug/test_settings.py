"""The environment of all clients of debuginfod servers: debuginfod-client-config(7)."""

from pathlib import Path

import pytest

from scope_bpf.code.debug.settings import Settings, settings_of


def test_nobody_is_asked_by_default() -> None:
    assert settings_of({"HOME": "/home/me"}) == Settings((), Path("/home/me/.cache/debuginfod_client"))


def test_what_is_set(caplog: pytest.LogCaptureFixture) -> None:
    """Several servers; only those that are asked by HTTP."""
    given = {
        "DEBUGINFOD_URLS": "https://one.example/ ima:permissive file:///srv http://two.example:8002",
        "DEBUGINFOD_CACHE_PATH": "/var/cache/here",
        "DEBUGINFOD_TIMEOUT": "7",
        "DEBUGINFOD_MAXTIME": "70",
        "DEBUGINFOD_MAXSIZE": "1000",
    }
    found = settings_of(given)
    assert found == Settings(("https://one.example", "http://two.example:8002"), Path("/var/cache/here"), 7, 70, 1000)
    assert [record.left_out for record in caplog.records] == [["file:///srv"]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["0", "-1", "soon", ""])
def test_no_limit(text: str) -> None:
    """Zero and less mean no limit of time; sizes keep ours."""
    names = ("DEBUGINFOD_TIMEOUT", "DEBUGINFOD_MAXTIME", "DEBUGINFOD_MAXSIZE")
    found = settings_of(dict.fromkeys(names, text))
    assert (found.timeout_s, found.longest_s, found.largest) == (None, None, 2 << 30)


def test_the_cache(tmp_path: Path) -> None:
    """As elfutils chooses it: the old directory if it is there, then XDG's."""
    environment = {"HOME": str(tmp_path), "XDG_CACHE_HOME": "/x"}
    assert settings_of(environment).cache == Path("/x/debuginfod_client")
    (tmp_path / ".debuginfod_client_cache").mkdir()
    assert settings_of(environment).cache == tmp_path / ".debuginfod_client_cache"
    assert settings_of({}).cache == Path("/.cache/debuginfod_client")
