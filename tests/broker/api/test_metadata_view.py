"""Brokers and controllers as handlers of both listeners see them."""

import ast
from pathlib import Path

from stratalog.broker.api import BROKER_APIS, metadata_view
from stratalog.broker.api.broker_view import BrokerView
from stratalog.broker.api.controller_apis import CONTROLLER_APIS
from stratalog.broker.api.controller_view import ControllerView
from stratalog.broker.api.metadata_view import MetadataView

API = Path(metadata_view.__file__).parent


def test_both_views_have_all_of_it():
    """A handler that asks for no more serves both listeners."""
    assert MetadataView in BrokerView.__mro__
    assert MetadataView in ControllerView.__mro__


def test_handlers_of_both_listeners_ask_for_nothing_else():
    """No module whose rows stand in both tables names the view of one of them, but for a row of its own."""
    shared = {api.key for api in BROKER_APIS} & {api.key for api in CONTROLLER_APIS}
    own_rows = {"describe_cluster", "describe_quorum", "fetch"}
    narrow = set()
    for path in API.glob("*.py"):
        tree = ast.parse(path.read_text())
        keys = {
            keyword.value.value
            for call in ast.walk(tree)
            if isinstance(call, ast.Call)
            for keyword in call.keywords
            if keyword.arg == "key" and isinstance(keyword.value, ast.Constant)
        }
        views = {
            node.module.rpartition(".")[2]
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
        }
        if keys & shared and views & {"broker_view", "controller_view"}:
            narrow.add(path.stem)
    assert narrow <= own_rows
