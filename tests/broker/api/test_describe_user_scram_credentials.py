"""DescribeUserScramCredentials: who has credentials."""

from types import SimpleNamespace

from stratalog.broker.api import describe_user_scram_credentials
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from stratalog.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.broker.api.at_once import PlainRows, pauses


def ask(broker, *users):
    named = [UserName(name=user) for user in users] or None
    answer = broker.link().call(DescribeUserScramCredentialsRequest(users=named), 0)
    assert answer.error_code == 0
    return {
        one.user: (ErrorCode(one.error_code), [(each.mechanism, each.iterations) for each in one.credential_infos])
        for one in answer.results
    }


def test_users_and_strangers(broker):
    """Mechanisms and iterations; RESOURCE_NOT_FOUND for who has none, DUPLICATE_RESOURCE for who is named twice."""
    assert ask(broker) == {}
    for user, mechanism in (("a", 1), ("a", 2), ("b", 1)):
        one = ScramCredentialUpsertion(
            name=user, mechanism=mechanism, iterations=4096 + mechanism, salt=b"s", salted_password=b"p"
        )
        broker.link().call(AlterUserScramCredentialsRequest(deletions=[], upsertions=[one]), 0)
    both = (ErrorCode.NONE, [(1, 4097), (2, 4098)])
    assert ask(broker) == {"a": both, "b": (ErrorCode.NONE, [(1, 4097)])}
    assert ask(broker, "a", "c", "b", "b") == {
        "a": both,
        "c": (ErrorCode.RESOURCE_NOT_FOUND, []),
        "b": (ErrorCode.DUPLICATE_RESOURCE, []),
    }


def test_very_many_users_are_described_in_slices():
    """One after the other."""
    image = SimpleNamespace(scram=SimpleNamespace(by_user={f"u{number}": {} for number in range(100)}))
    context = SimpleNamespace(broker=SimpleNamespace(image=image), rows=lambda _name: PlainRows())
    steps = describe_user_scram_credentials._steps(context, DescribeUserScramCredentialsRequest(users=None))
    paused, answer = pauses(steps)
    assert (paused, len(answer.results)) == (100, 100)
