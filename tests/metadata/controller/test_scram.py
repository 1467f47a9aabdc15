"""SCRAM credentials: what may be set, deleted and described."""

import base64
import hashlib
import hmac

import pytest

from stratalog.metadata.controller.scram import (
    ScramDeletion,
    ScramUpsertion,
    alter_credentials,
    describe_credentials,
)
from stratalog.metadata.image.decision import Failure
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.wire.errors import ErrorCode

SHA_256, SHA_512 = 1, 2


def upsertion(user="a", mechanism=SHA_256, iterations=4096):
    return ScramUpsertion(user, mechanism, iterations, b"salt", b"hashed")


def altered(image, *changes):
    """The image after the changes, and the code of each user."""
    deletions = [change for change in changes if isinstance(change, ScramDeletion)]
    upsertions = [change for change in changes if isinstance(change, ScramUpsertion)]
    decision = alter_credentials(image, deletions, upsertions)
    codes = {user: None if failure is None else failure.code for user, failure in decision.result}
    return image.apply(decision.records), codes


def test_keys_are_those_of_rfc_7677():
    """Its example: user "user", password "pencil", 4096 rounds of SHA-256."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    image, _ = altered(EMPTY_IMAGE, ScramUpsertion("user", SHA_256, 4096, salt, salted))
    credential = image.scram.of("user")[SHA_256]
    message = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(credential.stored_key, message, "sha256")
    client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == credential.stored_key
    expected = base64.b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert hmac.digest(credential.server_key, message, "sha256") == expected


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([upsertion(mechanism=9), upsertion(iterations=1)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([upsertion(iterations=1), upsertion()], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(), upsertion(mechanism=9)], ErrorCode.DUPLICATE_RESOURCE),
        ([upsertion(), upsertion(), upsertion()], ErrorCode.DUPLICATE_RESOURCE),
        ([ScramDeletion("a", SHA_256), upsertion()], ErrorCode.RESOURCE_NOT_FOUND),
        ([ScramDeletion("", 1), upsertion(user="")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_a_user_is_answered_once_with_the_first_thing_that_is_wrong(changes, code):
    """That user does not change, and the others go on."""
    image, codes = altered(EMPTY_IMAGE, *changes, upsertion(user="b"))
    assert codes == {changes[0].user: code, "b": None}
    assert list(image.scram.by_user) == ["b"]


def test_each_mechanism_for_itself():
    """A user may have both; one goes without the other."""
    image, codes = altered(EMPTY_IMAGE, upsertion(mechanism=SHA_256))
    image, _ = altered(image, upsertion(mechanism=SHA_512))
    assert codes == {"a": None}
    assert sorted(image.scram.of("a")) == [SHA_256, SHA_512]
    assert len(image.scram.of("a")[SHA_512].stored_key) == 64
    image, _ = altered(image, ScramDeletion("a", SHA_256))
    assert sorted(image.scram.of("a")) == [SHA_512]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion(user=""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (ScramDeletion("a", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (ScramDeletion("", SHA_256), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (ScramDeletion("b", SHA_256), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_impossible_requests_are_refused(change, code):
    """For its user; another one's change is made."""
    image, codes = altered(EMPTY_IMAGE, change, upsertion(user="good"))
    assert codes == {change.user: code, "good": None}
    assert list(image.scram.by_user) == ["good"]


def test_a_user_changes_once_in_a_request():
    """A second change of the same user, a deletion or another mechanism, refuses both with DUPLICATE_RESOURCE."""
    image, _ = altered(EMPTY_IMAGE, upsertion())
    for other in (ScramDeletion("a", SHA_256), upsertion(mechanism=SHA_512)):
        after, codes = altered(image, upsertion(), other)
        assert codes == {"a": ErrorCode.DUPLICATE_RESOURCE}
        assert after.scram == image.scram


def test_users_are_described():
    """All of them, or those that are named."""
    image, _ = altered(EMPTY_IMAGE, upsertion(), upsertion(user="b"))
    assert [user for user, _ in describe_credentials(image, [])] == ["a", "b"]
    found = dict(describe_credentials(image, ["b", "c", "a", "a"]))
    assert found["b"] == image.scram.of("b")
    codes = {user: each.code for user, each in found.items() if isinstance(each, Failure)}
    assert codes == {"c": ErrorCode.RESOURCE_NOT_FOUND, "a": ErrorCode.DUPLICATE_RESOURCE}


def test_secrets_do_not_show_themselves():
    """A change in a log or a traceback says whose it is, not what."""
    assert "hashed" not in repr(upsertion())
