"""A machine's membership: its labels, and its end."""

import re
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, RootModel, WithJsonSchema

from scope_server.accounts.caller import Role
from scope_server.api.context import MEMBERS, REGISTER
from scope_server.api.resources.machines import no_machine
from scope_server.api.routing.call import Call
from scope_server.api.routing.input import quoted
from scope_server.api.routing.models import Answer, Names, NodeName, Parameters
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.errors import InvalidQuery, UnknownThing
from scope_wire.refused.refusals import Reason

ROUTES = Routes()

_NAME = r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?"
_VALUE = r"[A-Za-z0-9._:/@+-]{1,63}"
MOST_LABELS = 64


def _label_name(text: str) -> str:
    if not re.fullmatch(_NAME, text):
        raise ValueError(
            f"{quoted(text)} is no name of a label: up to 63 letters, digits, . _ / -, a letter or digit first and last"
        )
    return text


def _label_value(text: str) -> str:
    if not re.fullmatch(_VALUE, text):
        raise ValueError(f"{quoted(text)} is no value of a label: 1 to 63 letters, digits, . _ : / @ + -")
    return text


LabelName = Annotated[
    str, AfterValidator(_label_name), WithJsonSchema({"type": "string", "pattern": f"^{_NAME}$", "maxLength": 63})
]
LabelValue = Annotated[str, AfterValidator(_label_value), WithJsonSchema({"type": "string", "pattern": f"^{_VALUE}$"})]
Labels = Annotated[dict[LabelName, LabelValue], Field(max_length=MOST_LABELS)]


class LabelChanges(RootModel[Annotated[dict[LabelName, LabelValue | None], Field(max_length=MOST_LABELS)]]):
    """Labels to set, by name; null deletes one."""

    model_config = ConfigDict(frozen=True, strict=True)


class NodePath(Parameters):
    """Which machine."""

    node: NodeName


class Labelled(Answer):
    """All labels of a machine."""

    labels: Names


class Member(Answer):
    """The machine that was meant."""

    machine_id: str


@ROUTES.post(f"{PREFIX}/nodes/{{node}}/labels", Role.OPERATOR, audited="node.label")
async def label_node(call: Call, path: NodePath, body: LabelChanges) -> Labelled:
    """Set labels of a machine, and delete those that are null; answers with all labels of the machine."""
    put = {name: value for name, value in body.root.items() if value is not None}
    drop = [name for name, value in body.root.items() if value is None]
    return Labelled(labels=await call[MEMBERS].label(await _machine(call, path), put, drop))


@ROUTES.post(f"{PREFIX}/nodes/{{node}}/remove", Role.ADMIN, audited="node.remove")
async def remove_node(call: Call, path: NodePath) -> Member:
    """End the membership of a machine. It may join again, with a new token."""
    return await _end(call, path, Reason.REMOVED)


@ROUTES.post(f"{PREFIX}/nodes/{{node}}/revoke", Role.ADMIN, audited="node.revoke")
async def revoke_node(call: Call, path: NodePath) -> Member:
    """End the membership of a machine for good. It may not join again before it was removed."""
    return await _end(call, path, Reason.REVOKED)


@ROUTES.post(f"{PREFIX}/nodes/{{node}}/confirm", Role.ADMIN, audited="node.confirm")
async def confirm_node(call: Call, path: NodePath) -> Member:
    """Accept a machine that is known only by its certificate, because the database was restored."""
    machine_id = await _machine(call, path)
    if not await call[MEMBERS].confirm(machine_id):
        raise UnknownThing(f"{machine_id} needs no confirmation", parameter="node")
    return Member(machine_id=machine_id)


async def _end(call: Call, path: NodePath, how: Reason) -> Member:
    machine_id = await _machine(call, path)
    if not await call[REGISTER].end(machine_id, how):
        raise UnknownThing(f"{machine_id} has not joined, or was {how} before", parameter="node")
    return Member(machine_id=machine_id)


async def _machine(call: Call, path: NodePath) -> str:
    found = await call[MEMBERS].find(path.node)
    if not found:
        raise UnknownThing(await no_machine(call, path.node), parameter="node")
    if len(found) > 1:
        raise InvalidQuery(
            f"several machines have the hostname {quoted(path.node)}; give the machine's id", parameter="node"
        )
    return found[0]
