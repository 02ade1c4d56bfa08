"""What Grafana is provisioned with is what the dashboards ask, and what Compose gives it."""

import re
from pathlib import Path

import yaml
from deploy.grafana.panels import POSTGRES, PROMETHEUS

DEPLOY = Path(__file__).parents[3] / "deploy"
GRAFANA = yaml.safe_load((DEPLOY / "docker/compose.yml").read_text())["services"]["grafana"]
SOURCES = (DEPLOY / "grafana/provisioning/datasources/scope.yml").read_text()
(PROVIDER,) = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/scope.yml").read_text())["providers"]


def test_the_data_sources_are_those_of_the_panels() -> None:
    """Type and uid of each data source are as panels name them; panels may not change either store."""
    sources = {source["uid"]: source for source in yaml.safe_load(SOURCES)["datasources"]}
    assert {uid: source["type"] for uid, source in sources.items()} == {
        named["uid"]: named["type"] for named in (POSTGRES, PROMETHEUS)
    }
    assert sources[POSTGRES["uid"]]["user"] == "scope_grafana"
    assert sources[POSTGRES["uid"]]["isDefault"] is True


def test_compose_gives_what_provisioning_reads() -> None:
    """Each variable is set, the password is a secret of Grafana's, and the dashboards lie where they are looked for."""
    assert set(re.findall(r"\$(\w{3,})", SOURCES.replace("$__file", ""))) == {
        name for name in GRAFANA["environment"] if name.startswith("SCOPE_")
    }
    assert re.findall(r"\$__file\{/run/secrets/(\w+)\}", SOURCES) == ["grafana_database_password"]
    assert "grafana_database_password" in GRAFANA["secrets"]
    mounted = {words[1]: words[0] for words in (volume.split(":") for volume in GRAFANA["volumes"])}
    assert (DEPLOY / "docker" / mounted[PROVIDER["options"]["path"]]).resolve() == DEPLOY / "grafana/dashboards"
    assert (DEPLOY / "docker" / mounted["/etc/grafana/provisioning"]).resolve() == DEPLOY / "grafana/provisioning"
    assert PROVIDER["folder"] == "SCOPE"
