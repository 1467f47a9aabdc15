"""DescribeUserScramCredentials: what the messages carry."""

from stratalog.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    UserName,
)
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """Null asks for all users."""
    request = DescribeUserScramCredentialsRequest(users=[UserName(name="a")])
    assert encode_bytes(request, 0) == bytes.fromhex("02 0261 00 00")
    assert encode_bytes(DescribeUserScramCredentialsRequest(users=None), 0) == bytes.fromhex("00 00")


def test_response_versions():
    """Mechanism and iterations; neither salt nor key."""
    info = CredentialInfo(mechanism=1, iterations=4096)
    result = DescribeUserScramCredentialsResult(user="a", credential_infos=[info])
    assert encode_bytes(DescribeUserScramCredentialsResponse(results=[result]), 0) == bytes.fromhex(
        "00000000 0000 00 02 0261 0000 00 02 01 00001000 00 00 00"
    )
