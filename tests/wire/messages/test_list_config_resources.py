"""ListConfigResources: what each version of the messages carries."""

from stratalog.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from stratalog.wire.schema import decode, encode_bytes


def test_request_versions():
    """Version 0 asks for client metrics without saying so, version 1 names types."""
    request = ListConfigResourcesRequest(resource_types=[2, 32])
    assert encode_bytes(request, 0) == bytes.fromhex("00")
    assert encode_bytes(request, 1) == bytes.fromhex("03 02 20 00")


def test_response_versions():
    """In version 0 every resource is one of client metrics."""
    response = ListConfigResourcesResponse(config_resources=[ConfigResource(resource_name="n", resource_type=2)])
    assert encode_bytes(response, 0) == bytes.fromhex("00000000 0000 02 026e 00 00")
    assert encode_bytes(response, 1) == bytes.fromhex("00000000 0000 02 026e 02 00 00")
    again = decode(ListConfigResourcesResponse, 0, bytes.fromhex("00000000 0000 02 026e 00 00"))
    assert again.config_resources[0].resource_type == 16
