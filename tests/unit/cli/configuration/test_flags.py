"""Settings as options of commands."""

import argparse
from pathlib import Path

import pytest

from scope_cli.configuration.daemons import AGENTD, DAEMONS, SERVER
from scope_cli.configuration.flags import add_flags, as_words, given
from scope_cli.configuration.keys import keys

LIMITS = ("keep_days", "keep_bytes", "free_floor")


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_flags(parser, AGENTD)
    add_flags(parser, SERVER, LIMITS)
    return parser.parse_args(words)


def test_only_what_is_given_counts() -> None:
    """Options that are not given are not there: a variable or the file may have the value."""
    assert given(parsed(), AGENTD) == {}
    wanted = {"spool_bytes": 512 << 20, "exclude_pid": (7, 11, 13), "state_dir": Path("state").absolute()}
    words = ("--spool-bytes", "512M", "--exclude-pid", "7", "--exclude-pid=11,13", "--state-dir", "state")
    assert given(parsed(*words), AGENTD) == wanted


def test_what_is_given_is_handed_on() -> None:
    """`scope up` passes given settings, 0 included, to its parts: they read the same values."""
    words = as_words(parsed("--keep-days", "7", "--keep-bytes", "50G", "--free-floor", "0"), SERVER, LIMITS)
    assert words == ["--keep-days=7", f"--keep-bytes={50 << 30}", "--free-floor=0"]
    assert given(parsed(*words), SERVER) == {"keep_days": 7, "keep_bytes": 50 << 30, "free_floor": 0}
    assert as_words(parsed(), SERVER, LIMITS) == []


@pytest.mark.parametrize("word", ["--keep-bytes=much", "--free-floor=-1", "--keep-days=1.5", "--spool-bytes="])
def test_what_is_no_value_is_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An invalid value is refused; the message names the option."""
    with pytest.raises(SystemExit):
        parsed(word)
    assert word.partition("=")[0] in capsys.readouterr().err


@pytest.mark.parametrize("name", list(DAEMONS))
def test_every_setting_is_an_option_with_its_default(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help has every setting with its meaning and its default."""
    parser = argparse.ArgumentParser()
    add_flags(parser, DAEMONS[name])
    with pytest.raises(SystemExit):
        parser.parse_args(["--help"])
    told = " ".join(capsys.readouterr().out.split())
    for key in keys(DAEMONS[name]).values():
        assert f"{key.flag} {key.metavar}" in told
        assert key.setting.meaning.split(";")[0] in told.replace("- ", "-")
