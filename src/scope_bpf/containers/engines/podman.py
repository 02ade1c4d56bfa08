"""Podman: its lists of containers, also of users, and root's database, which has the names of pods."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from scope_bpf.containers.engines import runtimes
from scope_bpf.containers.engines.container import Container
from scope_bpf.containers.engines.files import list_of, text_in

_FOLDERS = ("var/lib/containers/storage/overlay-containers", "run/containers/storage/overlay-containers")
_LISTS = ("containers.json", "volatile-containers.json")  # the second: `podman run --rm`
_DATABASE = "var/lib/containers/storage/db.sql"
_POD = "SELECT p.Name FROM ContainerConfig AS c JOIN PodConfig AS p ON p.ID = c.PodID WHERE c.ID = ?"


def find(root: Path, id_: str, user: str = "") -> Container | None:
    """The container with this id; `root` is the file system's. Of a user's containers, no pod is known.

    A user could write a database whose answer takes for ever.
    """
    for folder in (root / name for name in _FOLDERS):
        if found := _listed(folder, id_):
            return replace(found, pod=_pod(root / _DATABASE, id_))
    for bundle in runtimes.bundles(root, id_, user):  # STORAGE/ID/userdata
        if found := _listed(bundle.parent.parent, id_):
            return found
    return None


def _listed(folder: Path, id_: str) -> Container | None:
    for found in (each for name in _LISTS for each in list_of(folder / name)):
        if found.get("id") == id_:
            names = found.get("names")
            name = names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""
            return Container(name, _image(text_in(found, "metadata")))
    return None


def _image(metadata: str) -> str:
    try:
        told = json.loads(metadata)
    except ValueError:
        return ""
    return text_in(told, "image-name") if isinstance(told, dict) else ""


def _pod(database: Path, id_: str) -> str:
    try:
        # Immutable: it is read as it lies on the disk. No lock stops Podman, and nothing is written.
        with closing(sqlite3.connect(f"{database.as_uri()}?immutable=1", uri=True)) as connection:
            found = connection.execute(_POD, [id_]).fetchone()
    except sqlite3.Error:  # there is none, as with older versions, or it changes right now
        return ""
    return str(found[0]) if found else ""
