"""IncrementalAlterConfigs: what each version of the messages carries."""

from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from stratalog.wire.schema import decode, encode_bytes


def test_request_versions():
    """A change names an operation and, unless it deletes, a value."""
    changes = [
        AlterableConfig(name="k", config_operation=0, value="v"),
        AlterableConfig(name="l", config_operation=1, value=None),
    ]
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
    assert encode_bytes(request, 0) == bytes.fromhex(
        "00000001 02 0001 74 00000002 0001 6b 00 0001 76 0001 6c 01 ffff 01"
    )
    compact = "02 02 0274 03 026b 00 0276 00 026c 01 00 00 00 01 00"
    assert encode_bytes(request, 1) == bytes.fromhex(compact)
    assert decode(IncrementalAlterConfigsRequest, 1, bytes.fromhex(compact)) == request


def test_response():
    """Each resource has its own outcome."""
    outcome = AlterConfigsResourceResponse(error_code=40, error_message="no", resource_type=2, resource_name="t")
    response = IncrementalAlterConfigsResponse(responses=[outcome])
    assert encode_bytes(response, 1) == bytes.fromhex("00000000 02 0028 036e6f 02 0274 00 00")
