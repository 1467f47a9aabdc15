"""DescribeClientQuotas: what each version of the messages carries."""

from stratalog.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """A component without a name has a null there."""
    exact = ComponentData(entity_type="ip", match_type=0, match="a")
    default = ComponentData(entity_type="user", match_type=1, match=None)
    request = DescribeClientQuotasRequest(components=[exact, default], strict=True)
    old = "00000002 0002 6970 00 0001 61 0004 75736572 01 ffff 01"
    assert encode_bytes(request, 0) == bytes.fromhex(old)
    assert encode_bytes(request, 1) == bytes.fromhex("03 036970 00 0261 00 0575736572 01 00 00 01 00")


def test_response_versions():
    """A value is a float of 64 bits; entries are null after an error."""
    entry = EntryData(entity=[EntityData(entity_type="u", entity_name=None)], values=[ValueData(key="k", value=1.5)])
    response = DescribeClientQuotasResponse(entries=[entry])
    old = "00000000 0000 ffff 00000001 00000001 0001 75 ffff 00000001 0001 6b 3ff8000000000000"
    assert encode_bytes(response, 0) == bytes.fromhex(old)
    compact = "00000000 0000 00 02 02 0275 00 00 02 026b 3ff8000000000000 00 00 00"
    assert encode_bytes(response, 1) == bytes.fromhex(compact)
    failed = DescribeClientQuotasResponse(error_code=42, error_message="no", entries=None)
    assert encode_bytes(failed, 1) == bytes.fromhex("00000000 002a 036e6f 00 00")
