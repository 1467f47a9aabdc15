"""AlterUserScramCredentials: what the messages carry."""

from stratalog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from stratalog.wire.schema import encode_bytes


def test_request_versions():
    """Credentials that go, then those that are to be there."""
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="a", mechanism=1)],
        upsertions=[
            ScramCredentialUpsertion(name="b", mechanism=2, iterations=4096, salt=b"\1", salted_password=b"\2\3")
        ],
    )
    assert encode_bytes(request, 0) == bytes.fromhex("02 0261 01 00 02 0262 02 00001000 0201 030203 00 00")


def test_response_versions():
    """One outcome for each user."""
    result = AlterUserScramCredentialsResult(user="a", error_code=91, error_message="no")
    assert encode_bytes(AlterUserScramCredentialsResponse(results=[result]), 0) == bytes.fromhex(
        "00000000 02 0261 005b 036e6f 00 00"
    )
