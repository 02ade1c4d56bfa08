"""Settings of exports: forms of addresses, and secrets that stay in their files."""

from pathlib import Path
from typing import Any

import pytest

from scope_server.errors import InvalidSettings
from scope_server.exports.influxdb.address import authorization, influxdb_address
from scope_server.exports.otlp.address import Address, headers_of, otlp_address
from scope_server.settings import Settings
from scope_wire.errors import InvalidSetting


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("grpcs://collector", Address("grpcs", "collector", 4317)),
        ("grpc://[::1]:7", Address("grpc", "::1", 7)),
        ("https://c.example.org/otlp/", Address("https", "c.example.org", 4318, "/otlp")),
    ],
)
def test_forms_of_a_collector(text: str, wanted: Address) -> None:
    """The scheme says how, and whether with TLS; ports have OpenTelemetry's defaults."""
    assert otlp_address(text) == wanted


@pytest.mark.parametrize(
    "text", ["collector:4317", "grpc://", "grpcs://c/path", "https://u:secret@c", "ftp://c", "grpc://c:0", "grpc://c:x"]
)
def test_what_is_no_collector_is_told(text: str) -> None:
    """The error names the setting and its forms, and no secret."""
    with pytest.raises(InvalidSetting, match="otlp: is none of grpcs://") as told:
        otlp_address(text)
    assert "secret" not in str(told.value).replace("leave secrets", "")


def test_forms_of_influxdb() -> None:
    """Version 1 or 2 is told by the path; the precision is ours."""
    assert influxdb_address("http://i:8086/write?db=scope") == "http://i:8086/write?db=scope&precision=ns"
    two = influxdb_address("https://i/api/v2/write?org=my+lab&bucket=b")
    assert two == "https://i/api/v2/write?org=my+lab&bucket=b&precision=ns"
    assert authorization(two, "t") == {"Authorization": "Token t"}
    assert authorization("http://i/write?db=scope", "u:p") == {"Authorization": "Basic dTpw"}


@pytest.mark.parametrize(
    "text",
    [
        "http://i:8086",
        "http://i/write",
        "http://i/write?db=a&p=secret",
        "http://i/api/v2/write?org=a",
        "http://u:secret@i/write?db=a",
        "i/write?db=a",
    ],
)
def test_what_is_no_influxdb_is_told(text: str) -> None:
    """The error names the setting and its forms, and no secret."""
    with pytest.raises(InvalidSetting, match="influxdb: is none of http://") as told:
        influxdb_address(text)
    assert "secret" not in str(told.value)


def test_headers_come_from_a_file(tmp_path: Path) -> None:
    """Names are in lower case, as gRPC wants them."""
    file = tmp_path / "headers"
    file.write_text("Authorization: Bearer a b=\n\nX-Scope-OrgID:tenant\n")
    assert headers_of(file) == {"authorization": "Bearer a b=", "x-scope-orgid": "tenant"}
    assert headers_of(None) == {}


@pytest.mark.parametrize("content", ["secret\n", "a b: secret", "a: secret\nsecret"])
def test_a_line_that_is_no_header_is_told(content: str, tmp_path: Path) -> None:
    """The error names the file and the line, and has nothing of what stands there."""
    file = tmp_path / "headers"
    file.write_text(content)
    with pytest.raises(InvalidSettings, match=f"line [0-9] of {file} is no header") as told:
        headers_of(file)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"otlp_headers_file": Path("/x")}, "otlp_headers_file: goes with otlp"),
        ({"influxdb_token_file": Path("/x")}, "influxdb_token_file: goes with influxdb"),
        ({"otlp": "collector:4317"}, "otlp: is none of"),
        ({"export_series": 0}, "export_series: 0 is not above 0"),
    ],
)
def test_settings_are_checked(given: dict[str, Any], said: str) -> None:
    """A setting that does nothing, or cannot be, is an error that names it."""
    files: dict[str, Any] = {"socket": Path("/api.sock"), "authority": Path("/authority"), "state_dir": Path("/state")}
    with pytest.raises(InvalidSettings, match=said):
        Settings("host=db", **files, **given)
