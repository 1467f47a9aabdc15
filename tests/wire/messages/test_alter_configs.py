"""AlterConfigs: what each version of the messages carries."""

from stratalog.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """A setting has a name and a value, which may be null; compact from 2 on."""
    resource = AlterConfigsResource(
        resource_type=2,
        resource_name="t",
        configs=[AlterableConfig(name="k", value="v"), AlterableConfig(name="l", value=None)],
    )
    request = AlterConfigsRequest(resources=[resource], validate_only=True)
    old = "00000001 02 0001 74 00000002 0001 6b 0001 76 0001 6c ffff 01"
    assert encode_bytes(request, 0) == encode_bytes(request, 1) == bytes.fromhex(old)
    assert encode_bytes(request, 2) == bytes.fromhex("02 02 0274 03 026b 0276 00 026c 00 00 00 01 00")


def test_response_versions():
    """Code and message first, then the resource they belong to."""
    answer = AlterConfigsResourceResponse(error_code=40, error_message="no", resource_type=4, resource_name="1")
    response = AlterConfigsResponse(responses=[answer])
    assert encode_bytes(response, 0) == bytes.fromhex("00000000 00000001 0028 0002 6e6f 04 0001 31")
    assert encode_bytes(response, 2) == bytes.fromhex("00000000 02 0028 036e6f 04 0231 00 00")
