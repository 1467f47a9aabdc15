"""Credentials as options."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from stratalog.metadata.formatting.scram_arguments import parse_scram_argument
from stratalog.wire.errors import Invalid

SALT = b"e70wwt053bjtv8m26rj3g6z7id"


def parsed(text):
    """The record of an argument, with a salt that is known."""
    return parse_scram_argument(text, lambda: SALT)


@pytest.mark.parametrize(
    ("mechanism", "number", "name"), [("SCRAM-SHA-256", 1, "sha256"), ("SCRAM-SHA-512", 2, "sha512")]
)
def test_a_password_becomes_the_keys_of_rfc_5802(mechanism, number, name):
    """StoredKey is the hash of ClientKey; both keys come from the salted password."""
    record = parsed(f'{mechanism}=[name=alice,iterations=8192,password="alice-secret"]')
    salted = hashlib.pbkdf2_hmac(name, b"alice-secret", SALT, 8192)
    client_key = hmac.digest(salted, b"Client Key", name)
    assert (record.name, record.mechanism, record.iterations, bytes(record.salt)) == ("alice", number, 8192, SALT)
    assert bytes(record.stored_key) == hashlib.new(name, client_key).digest()
    assert bytes(record.server_key) == hmac.digest(salted, b"Server Key", name)


def test_a_password_of_kafka_has_kafkas_keys():
    """Kafka 4.3.1 made these from alice-secret with the salt beside them, at the default of 4096 iterations."""
    salt = base64.b64encode(base64.b64decode("ZTcwd3cwNTNianR2OG0yNnJqM2c2ejdpZA==")).decode()
    record = parsed(f"SCRAM-SHA-256=[name=alice,salt={salt},password=alice-secret]")
    assert base64.b64encode(bytes(record.stored_key)) == b"noRX76YPPJDStWsPH2CPF7VhbdhTA2Pscy4GjWgEIFk="
    assert base64.b64encode(bytes(record.server_key)) == b"5jRhYEe+90G4FdJ348u+ibWm81lmiQrJA+oWzX1168I="


def test_a_salted_password_needs_no_password():
    """Its keys are those of the password that it was made from."""
    salted = hashlib.pbkdf2_hmac("sha256", b"pw", SALT, 4096)
    told = f"salt={base64.b64encode(SALT).decode()},saltedpassword={base64.b64encode(salted).decode()}"
    assert parsed(f"SCRAM-SHA-256=[name=a,{told}]") == parsed("SCRAM-SHA-256=[name=a,password=pw]")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SCRAM-SHA-256", "equals sign"),
        ("SCRAM-SHA-1=[name=a,password=hidden]", "The add-scram mechanism SCRAM-SHA-1 is not supported"),
        ("SCRAM-SHA-256=name=a,password=hidden]", "between"),
        ("SCRAM-SHA-256=[", "between"),
        ("SCRAM-SHA-256=[password=hidden]", "You must supply 'name'"),
        ("SCRAM-SHA-256=[name=,password=hidden]", "Username must not be empty"),
        ("SCRAM-SHA-256=[name=a]", "one of 'password' or 'saltedpassword'"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=aGk=]", "You must supply 'salt'"),
        ("SCRAM-SHA-256=[name=a,salt=!,password=hidden]", "failed to decode the given salt"),
        ("SCRAM-SHA-256=[name=a,salt=aGk=,saltedpassword=!]", "failed to decode the given saltedpassword"),
        ("SCRAM-SHA-256=[name=a,iterations=x,password=hidden]", "Failed to parse iterations count: x"),
        ("SCRAM-SHA-256=[name=a,iterations=4095,password=hidden]", "Too few iterations"),
        ("SCRAM-SHA-256=[name=a,iterations=999999999,password=hidden]", "Too many iterations"),
        ("SCRAM-SHA-256=[name=a,colour=red,password=hidden]", "'colour' is none of"),
        ("SCRAM-SHA-256=[name=a,password]", "'password' is none of"),
    ],
)
def test_a_wrong_argument_is_refused_without_its_password(text, why):
    """Logs and terminals keep messages."""
    with pytest.raises(Invalid) as refused:
        parsed(text)
    assert why in str(refused.value)
    assert "hidden" not in str(refused.value)
