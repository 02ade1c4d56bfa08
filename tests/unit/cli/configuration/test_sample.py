"""The documented file: every setting of a daemon, with its meaning, unit, default and other names."""

import tomllib
from pathlib import Path

import pytest

from scope_cli.configuration.daemons import DAEMONS
from scope_cli.configuration.keys import keys
from scope_cli.configuration.resolve import resolve
from scope_cli.configuration.sample import sample


@pytest.fixture(params=list(DAEMONS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_it_changes_nothing(name: str) -> None:
    """All settings are commented out: the file as it is written has the defaults."""
    assert tomllib.loads(sample(DAEMONS[name])) == {}


def test_each_setting_has_its_other_names(name: str) -> None:
    """Each setting is there once, with its flag and its variable."""
    lines = sample(DAEMONS[name]).splitlines()
    for key in keys(DAEMONS[name]).values():
        assert len([line for line in lines if line.startswith(f"#{key.name} = ")]) == 1
    told = " ".join(line.removeprefix("# ") for line in lines)
    assert all(f"Option: {key.flag}. Variable: {key.variable}." in told for key in keys(DAEMONS[name]).values())


def test_what_is_commented_out_is_accepted(name: str, tmp_path: Path) -> None:
    """Without the #, each line is valid, and has the default where there is a fixed one."""
    file = tmp_path / "all.toml"
    file.write_text(
        "\n".join(line.removeprefix("#") for line in sample(DAEMONS[name]).splitlines() if line[1:2] != " ")
    )
    found = resolve(DAEMONS[name], file, {})
    assert found.problems == []
    for key in keys(DAEMONS[name]).values():
        assert found.values[key.name].origin.startswith(str(file))
        assert (
            key.fixed in (found.values[key.name].value, None)
            or not key.default
            or key.setting.within_state
            or (key.name == "state_dir")
        )


def test_chosen_values_are_set() -> None:
    """Given values stand without the #; what is derived from the state directory follows them."""
    text = sample(DAEMONS["server"], {"state_dir": Path("/srv/scope"), "backlog_bytes": 3 << 29})
    assert tomllib.loads(text) == {"state_dir": "/srv/scope", "backlog_bytes": "1536M"}
    assert '#socket = "/srv/scope/api.sock"' in text
