"""The controller's answers about SCRAM credentials: set, delete, describe.

They are kept as in Kafka, whose brokers take them without any SASL listener, too; without one they authenticate no
client. Sources of rules and texts: Kafka's ``ScramControlManager``, ``ScramImage``; KIP-554, RFC 5802.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from stratalog.metadata.image.decision import Decision, Failure, failure_of
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.scram_image import ScramCredential, ScramMechanism
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from stratalog.wire.schema import Message

__all__ = [
    "ITERATIONS_MAX",
    "ITERATIONS_MIN",
    "ScramDeletion",
    "ScramUpsertion",
    "alter_credentials",
    "credential_record",
    "describe_credentials",
]

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
_HASHES: Final[Mapping[int, Callable[[], Any]]] = MappingProxyType(
    {ScramMechanism.SHA_256: hashlib.sha256, ScramMechanism.SHA_512: hashlib.sha512}
)


class ScramDeletion(NamedTuple):
    """A credential that is to go."""

    user: str
    mechanism: int


class ScramUpsertion(NamedTuple):
    """A credential to store; the client has salted and hashed the password."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion({self.user!r}, {self.mechanism}, hidden)"


def alter_credentials(
    image: ClusterImage, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
) -> Decision[tuple[tuple[str, Failure | None], ...]]:
    """Change credentials, one of each user; a failure does not stop the others.

    Each user gets one answer, the first error. A second valid change of a user replaces the first.
    """
    records: dict[str, Message] = {}
    failures: dict[str, Failure] = {}
    changes: list[ScramDeletion | ScramUpsertion] = [*deletions, *upsertions]
    for change in changes:
        user = change.user
        if user in failures:
            continue
        try:
            if records.pop(user, None) is not None:
                why = "A user credential cannot be altered twice in the same request"
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, why)
            records[user] = _deleted(image, change) if isinstance(change, ScramDeletion) else credential_record(change)
        except KafkaError as error:
            failures[user] = failure_of(error)
    results: list[tuple[str, Failure | None]] = [*failures.items(), *((user, None) for user in records)]
    return Decision(tuple(records.values()), tuple(results))


def _check(user: str, mechanism: int) -> None:
    if not user:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in _HASHES:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")


def _deleted(image: ClusterImage, change: ScramDeletion) -> RemoveUserScramCredentialRecord:
    _check(change.user, change.mechanism)
    if change.mechanism not in image.scram.of(change.user):
        why = "Attempt to delete a user credential that does not exist"
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, why)
    return RemoveUserScramCredentialRecord(name=change.user, mechanism=change.mechanism)


def credential_record(change: ScramUpsertion) -> UserScramCredentialRecord:
    """The record of one credential. Raises `KafkaError` for a name, a mechanism or a number of iterations that cannot be."""
    _check(change.user, change.mechanism)
    if change.iterations < ITERATIONS_MIN:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    digest = _HASHES[change.mechanism]
    client_key = hmac.digest(change.salted_password, b"Client Key", digest)
    return UserScramCredentialRecord(
        name=change.user,
        mechanism=change.mechanism,
        salt=bytes(change.salt),
        stored_key=digest(client_key).digest(),  # type: ignore[call-arg]
        server_key=hmac.digest(change.salted_password, b"Server Key", digest),
        iterations=change.iterations,
    )


def describe_credentials(
    image: ClusterImage, users: Sequence[str]
) -> list[tuple[str, Mapping[int, ScramCredential] | Failure]]:
    """The credentials of each user, each once; of all users if none is named."""
    if not users:
        return list(image.scram.by_user.items())
    answers: list[tuple[str, Mapping[int, ScramCredential] | Failure]] = []
    for user, count in Counter(users).items():
        found = image.scram.of(user)
        if count > 1:
            why = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
            answers.append((user, Failure(ErrorCode.DUPLICATE_RESOURCE, why)))
        elif not found:
            why = f"Attempt to describe a user credential that does not exist: {user}"
            answers.append((user, Failure(ErrorCode.RESOURCE_NOT_FOUND, why)))
        else:
            answers.append((user, found))
    return answers
