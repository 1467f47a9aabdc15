"""Which APIs have shortcuts: ways to answer requests like earlier ones of the same connection without decoding them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from stratalog.broker.api import consumer_group_heartbeat, fetch, heartbeat, produce
from stratalog.broker.requests.dispatch import Api
from stratalog.broker.shortcuts import fetch as fetch_shortcut
from stratalog.broker.shortcuts import heartbeat as heartbeat_shortcut
from stratalog.broker.shortcuts import produce as produce_shortcut

__all__ = ["with_shortcuts"]

_REMEMBER: Final[dict[int, Callable[[Any, memoryview], None]]] = {
    produce.API.key: produce_shortcut.remember,
    fetch.API.key: fetch_shortcut.remember,
    heartbeat.API.key: heartbeat_shortcut.remember,
    consumer_group_heartbeat.API.key: heartbeat_shortcut.remember,
}


def with_shortcuts(apis: Iterable[Api[Any]]) -> list[Api[Any]]:
    """The same APIs; those that have a shortcut set it for connections whose requests can take it."""
    return [replace(api, remember=_REMEMBER.get(api.key)) for api in apis]
