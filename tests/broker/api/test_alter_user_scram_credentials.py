"""AlterUserScramCredentials: credentials come, last and go."""

from stratalog.broker.api.alter_user_scram_credentials import API
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

SHA_256 = 1


def deletion(user):
    return ScramCredentialDeletion(name=user, mechanism=SHA_256)


def upsertion(user, iterations=4096):
    return ScramCredentialUpsertion(
        name=user, mechanism=SHA_256, iterations=iterations, salt=b"salt", salted_password=b"hashed"
    )


def ask(broker, deletions=(), upsertions=()):
    request = AlterUserScramCredentialsRequest(deletions=list(deletions), upsertions=list(upsertions))
    return {one.user: ErrorCode(one.error_code) for one in broker.link().call(request, 0).results}


def test_credentials_last_until_they_are_deleted(broker):
    """Across a restart; the password's hash is not among what is kept."""
    assert ask(broker, upsertions=[upsertion("a"), upsertion("b", 1)]) == {
        "a": ErrorCode.NONE,
        "b": ErrorCode.UNACCEPTABLE_CREDENTIAL,
    }
    broker.restart()
    (credential,) = broker.node.image.scram.of("a").values()
    assert (credential.salt, credential.iterations) == (b"salt", 4096)
    assert b"hashed" not in {credential.stored_key, credential.server_key}
    assert ask(broker, [deletion("a"), deletion("b")]) == {"a": ErrorCode.NONE, "b": ErrorCode.RESOURCE_NOT_FOUND}
    assert broker.node.image.scram.by_user == {}


def test_a_failure_as_a_whole_is_answered_for_each_user():
    """Once for who is named twice."""
    request = AlterUserScramCredentialsRequest(deletions=[deletion("a")], upsertions=[upsertion("a"), upsertion("b")])
    results = API.failure(request, 0, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "why")).results
    assert [(one.user, one.error_code, one.error_message) for one in results] == [("a", -1, "why"), ("b", -1, "why")]
