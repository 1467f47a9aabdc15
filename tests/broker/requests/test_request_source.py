"""The two places that a request may come from."""

import inspect

import pytest

from stratalog.broker.network.connection import Connection
from stratalog.broker.requests.envelope_source import EnvelopeSource
from stratalog.broker.requests.request_source import RequestSource

METHODS = sorted(name for name, one in vars(RequestSource).items() if inspect.isfunction(one) and name[0] != "_")


@pytest.mark.parametrize("kind", [Connection, EnvelopeSource])
@pytest.mark.parametrize("name", METHODS)
def test_both_have_every_method_with_as_many_parameters(kind, name):
    """That types fit is checked by mypy where a source is handed to the dispatcher."""
    wanted = len(inspect.signature(vars(RequestSource)[name]).parameters)
    assert len(inspect.signature(getattr(kind, name)).parameters) == wanted


def test_the_list_of_methods_is_not_empty():
    """The test above would not fail otherwise."""
    assert {"answer", "park", "deliver", "refuse"} <= set(METHODS)
