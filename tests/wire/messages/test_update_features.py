"""UpdateFeatures: what each version of the messages carries."""

from stratalog.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """A flag in version 0, kinds of change and validation since 1."""
    update = FeatureUpdateKey(feature="f", max_version_level=2, allow_downgrade=True, upgrade_type=3)
    request = UpdateFeaturesRequest(feature_updates=[update], validate_only=True)
    assert encode_bytes(request, 0) == bytes.fromhex("0000ea60 02 0266 0002 01 00 00")
    assert encode_bytes(request, 1) == bytes.fromhex("0000ea60 02 0266 0002 03 00 01 00")
    assert encode_bytes(request, 2) == encode_bytes(request, 1)


def test_response_versions():
    """Features one by one up to version 1, all as one in 2."""
    result = UpdatableFeatureResult(feature="f", error_code=95, error_message="no")
    response = UpdateFeaturesResponse(error_code=95, error_message="no", results=[result])
    assert encode_bytes(response, 1) == bytes.fromhex("00000000 005f 036e6f 02 0266 005f 036e6f 00 00")
    assert encode_bytes(response, 2) == bytes.fromhex("00000000 005f 036e6f 00")
