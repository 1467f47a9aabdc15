"""``GET`` and ``PATCH /v1/topics/{topic}/tiering``: the settings that steer a topic's tiering, seen and changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from stratalog.broker.http.refusals import changing_refusal, json_body, refused
from stratalog.broker.http.server import Route
from stratalog.broker.http.services import HttpServices
from stratalog.broker.requests.authorizer import Operation
from stratalog.metadata.controller.controller import ConfigChange, incremental_alter_configs
from stratalog.metadata.image.configs_image import ConfigResource
from stratalog.metadata.settings.catalogue.types import ConfigError
from stratalog.metadata.settings.resolution import ConfigEntry
from stratalog.metadata.settings.tiering_advice import TIERING_NAMES, tiering_advice
from stratalog.wire.errors import KafkaError

__all__ = ["tiering_routes"]

_SET: Final = 0
_DELETE: Final = 1


def tiering_routes(services: HttpServices) -> dict[str, Route]:
    """The routes by method and path."""

    async def show(request: web.Request) -> web.StreamResponse:
        topic = request.match_info["topic"]
        if topic not in services.image().topics.by_name:
            return refused(404, f"topic {topic!r} does not exist")
        return web.json_response(_described(services, topic))

    async def change(request: web.Request) -> web.StreamResponse:
        topic = request.match_info["topic"]
        refusal = changing_refusal(request, services.authorizer, Operation.ALTER_CONFIGS, topic)
        if refusal is not None:
            return refusal
        if topic not in services.image().topics.by_name:
            return refused(404, f"topic {topic!r} does not exist")
        body = await json_body(request)
        if isinstance(body, web.Response):
            return body
        unknown = sorted(set(body) - set(TIERING_NAMES))
        if unknown:
            return refused(400, f"{unknown[0]!r} is no setting of tiering; those are {', '.join(TIERING_NAMES)}")
        odd = [name for name, value in body.items() if not isinstance(value, str | int | None)]
        if odd:
            return refused(400, f"the value of {odd[0]} is a text, a number, true, false, or null for the default")
        validate_only = request.query.get("validate_only", "false").lower() == "true"
        return await _change(services, topic, body, validate_only=validate_only)

    path = "/v1/topics/{topic}/tiering"
    return {f"GET {path}": show, f"PATCH {path}": change}


async def _change(services: HttpServices, topic: str, body: Mapping[str, Any], *, validate_only: bool) -> web.Response:
    changes = [
        ConfigChange(name, _DELETE if value is None else _SET, None if value is None else _text(value))
        for name, value in body.items()
    ]
    wanted = [(ConfigResource.topic(topic), changes)]
    try:
        ((_, failure),) = await services.control.execute(
            lambda image: incremental_alter_configs(
                image, wanted, services.config_rules(), validate_only=validate_only
            ),
            source="http",
            size=len(changes),
            only_asks=validate_only,
        )
    except KafkaError as error:
        return refused(503, str(error))
    if failure is not None:
        return refused(400, failure.message or failure.code.name)
    coming = {change.name: change.value for change in changes} if validate_only else {}
    return web.json_response({**_described(services, topic, coming), "validate_only": validate_only})


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _described(services: HttpServices, topic: str, coming: Mapping[str, str | None] | None = None) -> dict[str, Any]:
    """The settings as they hold, or would with those that are ``coming``; None of them is secret."""
    own = {**services.image().configs.of(ConfigResource.topic(topic)), **(coming or {})}
    overrides = {name: text for name, text in own.items() if text is not None}
    try:
        entries = services.config_rules().resolver.resolve(overrides)
    except ConfigError as error:  # only if an older release wrote what this one cannot read
        return {"topic": topic, "error": str(error)}
    return {
        "topic": topic,
        "settings": {name: _setting(entries[name]) for name in TIERING_NAMES},
        "advice": tiering_advice({name: entry.value for name, entry in entries.items()}),
    }


def _setting(entry: ConfigEntry) -> dict[str, Any]:
    return {"value": entry.value, "source": entry.source.name}
