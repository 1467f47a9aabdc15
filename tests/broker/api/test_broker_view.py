"""The broker as handlers see it."""

import ast
import inspect
from pathlib import Path

from stratalog.broker.api import broker_view
from stratalog.broker.api.broker_view import BrokerView
from stratalog.broker.fetches.fetch_broker import FetchBroker
from stratalog.broker.node import Node

API = Path(broker_view.__file__).parent
VIEWS = {"broker_view.py", "controller_view.py", "metadata_view.py"}


def attributes(protocol: type) -> set[str]:
    """The names that a protocol declares, with those of its bases."""
    return {
        name
        for base in protocol.__mro__
        if base.__module__.startswith("stratalog")
        for name in vars(base)
        if name[0] != "_"
    }


def test_the_view_offers_only_what_handlers_read() -> None:
    """An attribute of the view that no handler names is taken out of it."""
    named = set(attributes(FetchBroker))
    for path in [*API.glob("*.py"), *(API.parent / "shortcuts").glob("*.py")]:
        if path.name not in VIEWS:
            tree = ast.parse(path.read_text())
            named |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert attributes(BrokerView) <= named


def test_a_handler_sees_all_that_a_fetch_sees() -> None:
    """A handler can hand its request to a fetch."""
    assert attributes(FetchBroker) <= attributes(BrokerView)


def test_a_node_has_the_methods_of_the_view() -> None:
    """Parameters in the same order; that types fit is checked by mypy where the dispatcher is made."""
    methods = {name for name in attributes(BrokerView) if inspect.isfunction(getattr(BrokerView, name))}
    assert methods == {"cluster_view", "config_rules", "random_int", "report_corruption", "topic_rules"}
    for name in methods:
        assert list(inspect.signature(getattr(Node, name)).parameters) == list(
            inspect.signature(getattr(BrokerView, name)).parameters
        )
