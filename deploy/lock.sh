#!/bin/sh
# Resolves pyproject.toml in an empty environment and writes requirements.lock.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/python" - > "$scratch/wanted" <<'PYTHON'
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
print("\n".join(project["build-system"]["requires"]))
print("\n".join(project["project"]["dependencies"]))
print("\n".join(project["project"]["optional-dependencies"]["dev"]))
PYTHON
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$scratch/wanted"
{
    echo "# DO NOT EDIT: made by \`make lock\` from pyproject.toml"
    "$scratch/venv/bin/pip" freeze --all --exclude pip
} > requirements.lock
