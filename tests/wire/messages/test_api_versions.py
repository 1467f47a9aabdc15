"""ApiVersions: the messages with which every connection begins."""

from stratalog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from stratalog.wire.schema import decode, encode_bytes


def test_request_versions():
    """A client names itself from version 3 on; before, the request is empty."""
    request = ApiVersionsRequest(client_software_name="lib", client_software_version="1")
    assert encode_bytes(request, 2) == b""
    assert encode_bytes(request, 3).hex() == "046c6962" + "0231" + "00"
    assert decode(ApiVersionsRequest, 0, b"") == ApiVersionsRequest()


def test_response_v0():
    """KIP-511: an answer to a version that is not known has the body of version 0, readable by everyone."""
    response = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)])
    assert encode_bytes(response, 0).hex() == "0023" + "00000001" + "0012" + "0000" + "0004"
    assert encode_bytes(response, 1).hex() == "0023" + "00000001" + "0012" + "0000" + "0004" + "00000000"


def test_response_features():
    """KIP-584: features are tags 0 to 2, and an unknown epoch is not sent."""
    response = ApiVersionsResponse(api_keys=[])
    assert encode_bytes(response, 3).hex() == "0000" + "01" + "00000000" + "00"
    response = ApiVersionsResponse(
        api_keys=[],
        supported_features=[SupportedFeatureKey(name="f", min_version=1, max_version=2)],
        finalized_features_epoch=5,
        finalized_features=[FinalizedFeatureKey(name="f", max_version_level=2, min_version_level=1)],
    )
    assert encode_bytes(response, 3) == bytes.fromhex(
        "0000 01 00000000 03 00 08 02 0266 0001 0002 00 01 08 0000000000000005 02 08 02 0266 0002 0001 00"
    )
