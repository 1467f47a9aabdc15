"""DescribeConfigs: what each version of the messages carries."""

from stratalog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from stratalog.wire.schema import decode, encode_bytes


def test_request_versions():
    """Null keys ask for all; documentation can be asked for from version 3 on."""
    resource = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    assert encode_bytes(request, 1) == bytes.fromhex("00000001 02 0001 74 ffffffff 01")
    assert encode_bytes(request, 3) == bytes.fromhex("00000001 02 0001 74 ffffffff 01 01")
    assert encode_bytes(request, 4) == bytes.fromhex("02 02 0274 00 00 01 01 00")
    assert not decode(DescribeConfigsRequest, 1, bytes.fromhex("00000000 01")).include_documentation


def test_response_versions():
    """A config has its synonyms, and from version 3 on type and documentation."""
    config = DescribeConfigsResourceResult(
        name="k",
        value="v",
        read_only=False,
        config_source=1,
        is_sensitive=False,
        synonyms=[DescribeConfigsSynonym(name="k", value="v", source=1)],
        config_type=2,
        documentation="d",
    )
    result = DescribeConfigsResult(resource_type=2, resource_name="t", configs=[config])
    response = DescribeConfigsResponse(results=[result])
    old = "00000000 00000001 0000 ffff 02 0001 74 00000001 0001 6b 0001 76 00 01 00 00000001 0001 6b 0001 76 01"
    assert encode_bytes(response, 2) == bytes.fromhex(old)
    assert encode_bytes(response, 3) == bytes.fromhex(old + "02 0001 64")
    assert encode_bytes(response, 4) == bytes.fromhex(
        "00000000 02 0000 00 02 0274 02 026b 0276 00 01 00 02 026b 0276 01 00 02 0264 00 00 00"
    )
