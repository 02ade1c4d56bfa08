"""This API as OpenAPI describes it, with the columns of all streams."""

import asyncio
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from scope_server.accounts.caller import Role
from scope_server.api.context import DESCRIBED, TABLES
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer
from scope_server.api.routing.route import PREFIX, Routes

ROUTES = Routes()

_JSON = {"type": ["object", "array", "string", "number", "boolean", "null"]}
Members = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "additionalProperties": _JSON})]


class Document(Answer):
    """An OpenAPI document."""

    openapi: str
    info: Members
    servers: list[Members]
    security: list[Members]
    components: Members
    paths: Members = Field(description="operations by path and method")


@ROUTES.get(f"{PREFIX}/openapi.json", Role.VIEWER)
async def get_openapi(call: Call) -> Document:
    """This description, in OpenAPI 3.1."""
    return Document.model_construct(**await asyncio.to_thread(call[DESCRIBED].document, list(call[TABLES].values())))
