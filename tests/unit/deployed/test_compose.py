"""Compose files, secrets and manifests: valid by their schemas, and as closed as docs/deploy.md says."""

import json
import os
import re
import subprocess
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from compose_spec import PyCompose

from scope_agentd.settings import Settings as AgentSettings
from scope_server.identity.authority import Authority
from scope_server.settings import HYPERTABLES
from scope_server.settings import Settings as ServerSettings

ROOT = Path(__file__).parents[3]
DOCKER = ROOT / "deploy/docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yml").read_text())
# Compose's tag `!override` replaces a list, where it would else add to it.
yaml.SafeLoader.add_constructor("!override", yaml.SafeLoader.construct_sequence)
TIMESCALE: dict[str, Any] = yaml.safe_load((DOCKER / "timescale.yml").read_text())
AGENT: dict[str, Any] = yaml.safe_load((DOCKER / "agent.yml").read_text())
SERVICES: Mapping[str, Any] = COMPOSE["services"]
MANIFESTS = list(yaml.safe_load_all((ROOT / "deploy/kubernetes/agentd.yml").read_text()))
UNIT = (ROOT / "deploy/systemd/scope-agentd.service").read_text()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what `init` makes in it."""
    if os.geteuid():
        pytest.skip("init gives files to other users, for which it needs root")
    folder = tmp_path_factory.mktemp("docker")
    (folder / "init").write_bytes((DOCKER / "init").read_bytes())
    subprocess.run(["sh", folder / "init", "scope.example.org"], check=True, capture_output=True)
    return folder


def merged(base: Any, over: Any) -> Any:
    """As Compose merges two files, where no list is added to another."""
    if isinstance(base, dict) and isinstance(over, dict):
        return base | {key: merged(base.get(key), value) for key, value in over.items()}
    return over


WITH_TIMESCALE = merged(COMPOSE, TIMESCALE)


@pytest.mark.parametrize(
    "described", [COMPOSE, WITH_TIMESCALE, AGENT], ids=["compose", "compose with TimescaleDB", "agent"]
)
def test_compose_files_are_valid(described: dict[str, Any]) -> None:
    """The Compose specification's types accept each member; networks, volumes and secrets that are used exist."""
    parsed = PyCompose.from_json(json.dumps({key: value for key, value in described.items() if key[:2] != "x-"}))
    assert sorted(parsed.service_names()) == sorted(described["services"])
    for service in described["services"].values():
        for kind in ("networks", "secrets"):
            assert set(service.get(kind, [])) <= set(described.get(kind, {}))
        named = {volume.partition(":")[0] for volume in service.get("volumes", []) if volume[0] not in "./"}
        assert named <= set(described["volumes"])
        assert set(service.get("depends_on", {})) <= set(described["services"])


def test_servers_believe_nginx_and_nobody_else() -> None:
    """Limits are by the address that nginx tells, which is the one proxy; no other service has its address."""
    believed = SERVICES["server1"]["environment"]["SCOPE_SERVER_PROXIES"]
    fixed = {name: service["networks"] for name, service in SERVICES.items() if isinstance(service["networks"], dict)}
    assert fixed == {"nginx": {"outside": {}, "front": {"ipv4_address": believed}}}
    (subnet,) = COMPOSE["networks"]["front"]["ipam"]["config"]
    assert ip_address(believed) in ip_network(subnet["subnet"])


def test_only_nginx_can_be_reached() -> None:
    """No other service publishes a port, and all other networks reach nothing outside."""
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["nginx"]
    assert [name for name, network in COMPOSE["networks"].items() if not (network or {}).get("internal")] == ["outside"]
    assert [name for name, service in SERVICES.items() if "outside" in service["networks"]] == ["nginx"]
    assert not [name for name, service in SERVICES.items() if "network_mode" in service or "privileged" in service]


@pytest.mark.parametrize("described", [COMPOSE, WITH_TIMESCALE], ids=["blocks", "TimescaleDB"])
@pytest.mark.parametrize("name", SERVICES)
def test_each_service_is_closed_in(name: str, described: dict[str, Any]) -> None:
    """Each has a user who is not root, a read-only root, no capabilities, limits, and a health check if it stays."""
    service = described["services"][name]
    assert int(service["user"].partition(":")[0]) > 0
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"] and "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["deploy"]["resources"]["limits"].keys() == {"cpus", "memory", "pids"}
    assert "healthcheck" in service or service["restart"] == "no"
    assert not re.search(r":latest$", service["image"])
    texts = [*service.get("environment", {}).items()]
    assert not [key for key, value in texts if "PASSWORD" in key and not str(value).startswith("/run/secrets/")]


def test_there_are_two_servers_with_one_authority() -> None:
    """The servers differ in their own folder only, and share authority, database and Redis."""
    assert SERVICES["server1"]["environment"] == SERVICES["server2"]["environment"]
    volumes = [set(SERVICES[name]["volumes"]) for name in ("server1", "server2")]
    assert volumes[0] & volumes[1] == {"authority:/var/lib/scope-authority"}
    known = {f"SCOPE_SERVER_{field.upper()}" for field in ServerSettings.__dataclass_fields__}
    of_redis = {"SCOPE_SERVER_REDIS", "SCOPE_SERVER_REDIS_PASSWORD_FILE"}
    assert set(SERVICES["server1"]["environment"]) <= known | of_redis


def test_timescaledb_takes_the_place_of_postgres() -> None:
    """With TimescaleDB, servers make hypertables; PostgreSQL's data, password and settings differ, and nothing else."""
    services = WITH_TIMESCALE["services"]
    assert {services[name]["environment"]["SCOPE_SERVER_LAYOUT"] for name in ("server1", "server2")} == {HYPERTABLES}
    changed = {key for key, value in services["postgres"].items() if value != SERVICES["postgres"][key]}
    assert changed == {"image", "user", "environment", "command", "secrets", "volumes", "tmpfs"}
    settings = {word for word in SERVICES["postgres"]["command"] if "=" in word}
    given = {word.removeprefix("-c") for word in services["postgres"]["command"] if "=" in word}
    assert given - settings == {"shared_preload_libraries=timescaledb"} and settings <= given
    others = SERVICES.keys() - {"postgres", "server1", "server2"}
    assert {name: services[name] for name in others} == {name: SERVICES[name] for name in others}


def test_init_makes_what_compose_reads(made: Path) -> None:
    """Each secret and each mounted file is made; each is its reader's alone."""
    wanted = {Path(secret["file"]).name for secret in WITH_TIMESCALE["secrets"].values()}
    mounted = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    wanted |= {Path(one).name for one in mounted if one.startswith("./secrets/")}
    files = {file.name: file for file in (made / "secrets").iterdir()}
    assert set(files) == wanted | {"agents_password"}
    for name, service in [*SERVICES.items(), *WITH_TIMESCALE["services"].items()]:
        for secret in service.get("secrets", []):
            state = files[secret].stat()
            assert (state.st_uid, state.st_mode & 0o777) == (int(service["user"].partition(":")[0]), 0o400), (
                name,
                secret,
            )
    assert {file.stat().st_mode & 0o077 for name, file in files.items() if name != "authority_public"} == {0}
    assert (made / ".env").read_text() == "SCOPE_NAME=scope.example.org\n"


def test_passwords_are_made_at_random(made: Path) -> None:
    """No two are the same, but for the two sides of one, and none is short or in a file that is committed."""
    secrets = {file.name: file.read_text().strip() for file in (made / "secrets").iterdir()}
    passwords = {name: text for name, text in secrets.items() if name.endswith("_password")}
    assert secrets["postgres_password"] == secrets["database_password"] == secrets["timescale_password"]
    assert secrets["role_password"] == secrets["grafana_database_password"]
    assert secrets["redis_password"] in secrets["redis_configuration"]
    assert len(set(passwords.values())) == len(passwords) - 3
    assert all(re.fullmatch("[0-9a-f]{48}", text) for text in passwords.values())
    private = ["deploy/docker/secrets/x", "deploy/docker/.env"]
    ignored = subprocess.run(["git", "check-ignore", *private], cwd=ROOT, capture_output=True, text=True)
    assert ignored.stdout.split() == private


def test_init_keeps_what_is_there(made: Path) -> None:
    """Run again, it changes nothing; a name that is none is refused."""
    before = {file: (file.read_bytes(), file.stat().st_ino) for file in (made / "secrets").iterdir()}
    again = subprocess.run(["sh", made / "init", "scope.example.org"], check=True, capture_output=True, text=True)
    assert again.stdout == ""
    assert {file: (file.read_bytes(), file.stat().st_ino) for file in (made / "secrets").iterdir()} == before
    for wrong in ([], [""], ["a b"], ["a;b"]):
        assert subprocess.run(["sh", made / "init", *wrong], capture_output=True).returncode == 2


def test_the_server_takes_the_authority(made: Path, tmp_path: Path) -> None:
    """A server accepts the key and certificate that init makes."""
    key = tmp_path / "key.pem"
    key.write_bytes((made / "secrets/authority_key").read_bytes())
    key.chmod(0o600)
    authority = Authority(tmp_path / "authority", (made / "secrets/authority_certificate", key))
    assert authority.own(("scope.example.org",)).certificate.issuer == authority.certificate.subject


def test_images_are_made_of_what_there_is() -> None:
    """The Dockerfile has the targets that are built, and copies only the wheel, which is all that Docker is sent."""
    text = (DOCKER / "Dockerfile").read_text()
    targets = set(re.findall(r"^FROM \S+ AS (\w+)$", text, re.MULTILINE))
    built = {
        service["build"]["target"]
        for file in (COMPOSE, AGENT)
        for service in file["services"].values()
        if "build" in service
    }
    assert built == {"server", "agent"} <= targets
    assert re.findall(r"^COPY (?!--from)(\S+)", text, re.MULTILINE) == ["dist/*.whl"]
    assert (DOCKER / "Dockerfile.dockerignore").read_text() == "*\n!dist/*.whl\n"


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: str(manifest["kind"]))
@pytest.mark.parametrize("version", ["1.30", "1.34"])
def test_manifests_are_valid(manifest: dict[str, Any], version: str) -> None:
    """Kubernetes' schemas accept each manifest, with no unknown member."""
    kubernetes_validate.validate(manifest, version, strict=True)


def test_agents_have_the_same_rights_everywhere() -> None:
    """In systemd, Docker and Kubernetes, the agent has the same capabilities and may not get more."""
    (bounding,) = re.findall(r"^CapabilityBoundingSet=(.*)$", UNIT, re.MULTILINE)
    rights = {word.removeprefix("CAP_") for word in bounding.split()}
    (agent,) = AGENT["services"].values()
    (container,) = MANIFESTS[-1]["spec"]["template"]["spec"]["containers"]
    context = container["securityContext"]
    assert rights == set(agent["cap_add"]) == set(context["capabilities"]["add"])
    assert agent["cap_drop"] == context["capabilities"]["drop"] == ["ALL"]
    assert agent["read_only"] and context["readOnlyRootFilesystem"]
    assert not context["allowPrivilegeEscalation"] and "no-new-privileges:true" in agent["security_opt"]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]} - {"/tmp"}
    assert mounts == {volume.split(":")[1] for volume in agent["volumes"]}
    assert {"join", "state_dir"} & set(AgentSettings.__dataclass_fields__)


def test_agents_are_bounded_and_looked_at() -> None:
    """In Docker and Kubernetes, the agent has the same limits, and is well when `scope agentd status` says so."""
    (agent,) = AGENT["services"].values()
    (container,) = MANIFESTS[-1]["spec"]["template"]["spec"]["containers"]
    limits = agent["deploy"]["resources"]["limits"]
    assert limits.keys() == {"cpus", "memory", "pids"}
    assert (limits["cpus"], limits["memory"]) == ("1", "1g")
    assert container["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    check = agent["healthcheck"]["test"]
    assert check[1:4] == ["scope", "agentd", "status"]
    for probe in ("startupProbe", "readinessProbe"):
        assert container[probe]["exec"]["command"] == check[1:]
