"""Storage limits: `scope up` passes only the given ones to its parts."""

import argparse

import pytest

from scope_cli.limits import add_agent_limits, add_server_limits, given_agent_limits, given_server_limits


def _parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_agent_limits(parser)
    add_server_limits(parser)
    return parser.parse_args(words)


def test_what_is_not_given_is_the_parts_to_choose() -> None:
    """Limits that were not given are not passed on: the parts have the defaults."""
    assert given_server_limits(_parsed()) == given_agent_limits(_parsed()) == []


def test_what_is_given_is_handed_on() -> None:
    """Each given limit, 0 included, is passed to its part, in bytes."""
    parsed = _parsed("--keep-days", "7", "--keep-bytes", "50G", "--free-floor", "0", "--spool-bytes", "512M")
    server = ["--keep-days", "7", "--keep-bytes", str(50 << 30), "--free-floor", "0"]
    assert given_server_limits(parsed) == server
    assert given_agent_limits(parsed) == ["--spool-bytes", str(512 << 20)]
    again = _parsed(*server)
    assert (again.keep_days, again.keep_bytes, again.free_floor) == (7, 50 << 30, 0)


@pytest.mark.parametrize("given", ["--keep-bytes=much", "--free-floor=-1", "--keep-days=1.5", "--spool-bytes="])
def test_what_is_no_limit_is_refused(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An invalid limit is refused; the message names the option."""
    with pytest.raises(SystemExit):
        _parsed(given)
    assert given.partition("=")[0] in capsys.readouterr().err
