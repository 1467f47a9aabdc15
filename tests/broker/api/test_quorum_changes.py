"""Changes of voters that a broker of a cluster hands on."""

import pytest

from stratalog.broker.api import BROKER_APIS
from stratalog.broker.api.controller_apis import CONTROLLER_APIS
from stratalog.broker.api.quorum_changes import QUORUM_CHANGE_APIS, handle
from stratalog.wire.errors import ErrorCode, KafkaError


def test_a_broker_of_a_cluster_serves_what_its_controllers_serve():
    """In the same versions, forwarded also where the active controller is in the same process."""
    at_controllers = {api.key: api for api in CONTROLLER_APIS}
    assert [api.key for api in QUORUM_CHANGE_APIS] == [80, 81]
    for api in QUORUM_CHANGE_APIS:
        assert (api.forwarded, api.by_quorum, api.handled_first) == (True, True, False)
        assert api.versions == at_controllers[api.key].versions
        assert at_controllers[api.key].forwarded
    assert {80, 81}.isdisjoint(api.key for api in BROKER_APIS)


def test_without_a_way_to_the_leader_there_is_an_error():
    """A row without a forwarding would be a mistake of the node; its client hears a code that it knows."""
    with pytest.raises(KafkaError) as caught:
        handle(None, None)
    assert caught.value.code is ErrorCode.NOT_CONTROLLER
