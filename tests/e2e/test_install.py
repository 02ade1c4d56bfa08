"""`scope install` and `scope uninstall` below a directory: what they write, keep and remove."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from scope_cli.configuration.daemons import DAEMONS

SCOPE = [sys.executable, "-m", "scope_cli.main"]


def scope(*words: object) -> str:
    """Runs a command that must succeed; returns what it printed."""
    ran = subprocess.run([*SCOPE, *map(str, words)], capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def files(root: Path) -> dict[str, str]:
    """Mode and owner of everything of ours below a directory."""
    passwd = root / "etc/passwd"
    lines = [line.split(":") for line in passwd.read_text().splitlines()] if passwd.exists() else []
    names = {0: "root"} | {int(line[2]): line[0] for line in lines}
    found = {}
    for path in sorted(root.rglob("*scope*")):
        status = path.stat()
        found[str(path.relative_to(root))] = (
            f"{status.st_mode & 0o777:o} {names[status.st_uid]} {names.get(status.st_gid, status.st_gid)}"
        )
    found |= {str(path.relative_to(root)): f"{path.stat().st_mode & 0o777:o}" for path in root.glob("etc/scope/*")}
    return found


@pytest.fixture(params=list(DAEMONS))
def daemon(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_unit_user_directory_and_configuration(daemon: str, tmp_path: Path) -> None:
    """Others can read neither the data nor the configuration; the daemon's user owns only the data."""
    scope("install", daemon, "--root", tmp_path)
    name = f"scope-{daemon}"
    assert files(tmp_path) == {
        "etc/scope": "755 root root",
        f"etc/scope/{daemon}.toml": "640",
        f"etc/systemd/system/{name}.service": "644 root root",
        f"etc/sysusers.d/{name}.conf": "644 root root",
        f"var/lib/{name}": f"700 {name} {name}",
    }
    assert name in (tmp_path / "etc/passwd").read_text()
    said = scope("config", "show", daemon, tmp_path / f"etc/scope/{daemon}.toml")
    assert f'state_dir               "/var/lib/{name}"'.replace(" ", "") in said.replace(" ", "")


def test_an_edited_configuration_is_never_overwritten(daemon: str, tmp_path: Path) -> None:
    """Another `scope install` writes the unit again, but neither the configuration nor the data."""
    scope("install", daemon, "--root", tmp_path)
    config, unit = tmp_path / f"etc/scope/{daemon}.toml", tmp_path / f"etc/systemd/system/scope-{daemon}.service"
    data = tmp_path / f"var/lib/scope-{daemon}/data"
    written = unit.read_text()
    for file in (config, unit, data):
        file.write_text("# mine\n")
    assert f"kept {config}" in scope("install", daemon, "--root", tmp_path)
    assert (config.read_text(), unit.read_text(), data.read_text()) == ("# mine\n", written, "# mine\n")


def test_a_service_that_never_ran_leaves_nothing(daemon: str, tmp_path: Path) -> None:
    """Without data and edits, everything goes, the user too."""
    scope("install", daemon, "--root", tmp_path)
    scope("uninstall", daemon, "--root", tmp_path)
    assert files(tmp_path) == {}
    assert (tmp_path / "etc/passwd").read_text() == ""


def test_data_and_edits_stay_until_the_purge(daemon: str, tmp_path: Path) -> None:
    """Data stays with its owner, an edited configuration stays too; --purge removes both. Repeating it is no error."""
    scope("install", daemon, "--root", tmp_path)
    config, state = tmp_path / f"etc/scope/{daemon}.toml", tmp_path / f"var/lib/scope-{daemon}"
    config.write_text("# mine\n")
    (state / "data").write_text("rows")
    for _ in range(2):
        said = scope("uninstall", daemon, "--root", tmp_path)
        assert f"kept {config}, which was edited" in said
        assert f"kept {state} and its user" in said
    assert set(files(tmp_path)) == {"etc/scope", f"etc/scope/{daemon}.toml", f"var/lib/scope-{daemon}"}
    assert (state / "data").read_text() == "rows"
    scope("uninstall", daemon, "--root", tmp_path, "--purge")
    scope("uninstall", daemon, "--root", tmp_path, "--purge")
    assert files(tmp_path) == {}
    assert (tmp_path / "etc/passwd").read_text() == ""


def test_the_services_do_not_touch_each_other(tmp_path: Path) -> None:
    """With both installed, removing one leaves the other as it was."""
    scope("install", "server", "--root", tmp_path)
    alone = files(tmp_path)
    scope("install", "agentd", "--root", tmp_path)
    scope("uninstall", "agentd", "--root", tmp_path, "--purge")
    assert files(tmp_path) == alone


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Who may not write is told the file and the remedy; a root that does not exist is told too."""
    os.chown(tmp_path, 12345, 12345)
    words = ["setpriv", "--bounding-set=-dac_override", *SCOPE, "install", "agentd", "--root", str(tmp_path)]
    refused = subprocess.run(words, capture_output=True, text=True)
    told = f"scope: cannot write {tmp_path}/etc: Permission denied; run as root\n"
    assert (refused.returncode, refused.stderr) == (1, told)
    missing = subprocess.run([*SCOPE, "install", "agentd", "--root", "/nowhere"], capture_output=True, text=True)
    assert (missing.returncode, missing.stderr) == (1, "scope: --root: /nowhere is not a directory\n")


def under_nginx(root: Path) -> None:
    """A system below a directory that has Debian's nginx, as it is on this machine."""
    for name in ("nginx.conf", "mime.types", "modules-enabled/50-mod-stream.conf"):
        copy = root / "etc/nginx" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(Path("/etc/nginx", name).read_bytes())
    (root / "var/log/nginx").mkdir(parents=True)


def links(root: Path) -> dict[str, str]:
    """Links below a directory, and where they lead."""
    return {str(path.relative_to(root)): str(path.readlink()) for path in root.rglob("*") if path.is_symlink()}


def test_a_server_of_a_fleet_with_nginx(tmp_path: Path) -> None:
    """The settings are in the new configuration, and Debian's nginx gets the agents' and the people's part."""
    under_nginx(tmp_path)
    before = files(tmp_path)
    fleet = ("--redis", "redis://10.0.0.1:6379", "--nginx", "scope.example.org", "--server", "10.0.0.2")
    scope("install", "server", "--root", tmp_path, *fleet, "--database", "host=db dbname=scope")
    written = tomllib.loads((tmp_path / "etc/scope/server.toml").read_text())
    assert written == {
        "database": "host=db dbname=scope",
        "state_dir": "/var/lib/scope-server",
        "advertise": ["scope.example.org"],
        "advertise_ports": [8471, 8474],
        "http": "0.0.0.0:9470",
        "ingest": "0.0.0.0:9471",
        "enrol": "0.0.0.0:9474",
        "redis": "redis://10.0.0.1:6379",
        "proxies": ["127.0.0.1"],
    }
    assert links(tmp_path) == {
        "etc/nginx/modules-enabled/90-scope-agents.conf": "../scope/agents.conf",
        "etc/nginx/sites-enabled/scope": "../scope/people.conf",
    }
    for part, ports in (("agents", (("9471", "8471"), ("9474", "8474"))), ("people", (("9470", "8470"),))):
        text = (tmp_path / f"etc/nginx/scope/{part}.conf").read_text()
        found = re.findall(r"(?m)^ *server ([\d.:]+) ", text)
        assert found == [place for own, other in ports for place in (f"127.0.0.1:{own}", f"10.0.0.2:{other}")]
        assert "server1" not in text and "/dev/stdout" not in text
    tls = tmp_path / "etc/nginx/scope/tls"
    assert {path.name: f"{path.stat().st_mode & 0o777:o}" for path in tls.iterdir()} == {
        "certificate.pem": "644",
        "key.pem": "600",
    }
    certificate = (tls / "certificate.pem").read_bytes()
    scope("install", "server", "--root", tmp_path, *fleet)
    assert (tls / "certificate.pem").read_bytes() == certificate
    scope("uninstall", "server", "--root", tmp_path, "--purge")
    assert files(tmp_path) == before
    assert links(tmp_path) == {}


def test_another_server_of_the_fleet(tmp_path: Path) -> None:
    """It listens for other machines, and has no nginx."""
    scope("install", "server", "--root", tmp_path, "--redis", "redis://10.0.0.1", "--advertise", "scope.example.org")
    written = tomllib.loads((tmp_path / "etc/scope/server.toml").read_text())
    assert {name: written[name] for name in ("http", "ingest", "enrol", "advertise")} == {
        "http": "0.0.0.0:8470",
        "ingest": "0.0.0.0:8471",
        "enrol": "0.0.0.0:8474",
        "advertise": ["scope.example.org"],
    }
    assert not (tmp_path / "etc/nginx").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("agentd", "--nginx", "n"), "--nginx: only servers have it in front"),
        (("agentd", "--redis", "redis://r"), "settings of a server"),
        (("server", "--server", "h"), "--server: needs --nginx"),
        (("server", "--nginx", "a b"), "--nginx: 'a b' is neither a name nor an address"),
        (("server", "--nginx", "n"), "install nginx-light and libnginx-mod-stream"),
        (("server", "--redis", "what"), "redis"),
    ],
)
def test_what_makes_no_fleet_is_refused(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    """The message says what to do, and nothing is written."""
    refused = subprocess.run(
        [*SCOPE, "install", *words, "--root", str(tmp_path)], capture_output=True, text=True, timeout=240
    )
    assert refused.returncode in (1, 2)
    assert told in refused.stderr
    assert list(tmp_path.iterdir()) == []
