"""The controller as handlers see it."""

import ast
from pathlib import Path

from stratalog.broker.api import controller_view
from stratalog.broker.api.controller_view import ControllerView
from stratalog.broker.api.metadata_view import MetadataView

API = Path(controller_view.__file__).parent


def test_a_controller_adds_its_quorum_and_its_sessions_to_what_brokers_have():
    """The rest is common to both."""
    assert "sessions" in vars(ControllerView)
    assert "quorum" in vars(MetadataView)


def test_no_handler_reaches_for_the_node():
    """The views are all that the files of this room know of a process."""
    for path in API.glob("*.py"):
        modules = {node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
        assert "stratalog.broker.node" not in modules
