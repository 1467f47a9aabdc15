"""Credentials that a new cluster begins with: ``SCRAM-SHA-256=[name=alice,password=…]`` of ``--add-scram``.

Sources: Kafka's ``ScramParser``, ``ScramFormatter``; KIP-900, RFC 5802.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from typing import Final

from stratalog.metadata.controller.scram import ITERATIONS_MIN, ScramUpsertion, credential_record
from stratalog.metadata.image.scram_image import ScramMechanism
from stratalog.wire.errors import Invalid, KafkaError
from stratalog.wire.records.metadata import UserScramCredentialRecord

__all__ = ["parse_scram_argument"]

_MECHANISMS: Final[Mapping[str, tuple[ScramMechanism, str]]] = {
    "SCRAM-SHA-256": (ScramMechanism.SHA_256, "sha256"),
    "SCRAM-SHA-512": (ScramMechanism.SHA_512, "sha512"),
}
_COMPONENTS: Final = frozenset({"name", "salt", "iterations", "password", "saltedpassword"})


def parse_scram_argument(text: str, new_salt: Callable[[], bytes]) -> UserScramCredentialRecord:
    """The record of one argument; ``new_salt`` makes the salt of a password that is given without one.

    Raises `Invalid`, in most cases with Kafka's sentence. Neither a password nor anything made from it is in a message.
    """
    name, equals, content = text.strip().partition("=")
    if not equals:
        raise Invalid("--add-scram: failed to find the equals sign; write SCRAM-SHA-256=[name=alice,password=…]")
    if name not in _MECHANISMS:
        raise Invalid(f"The add-scram mechanism {name} is not supported. Supported are {', '.join(_MECHANISMS)}.")
    if not content.startswith("[") or not content.endswith("]") or len(content) < len("[]"):
        raise Invalid("--add-scram: the configuration string is expected to stand between [ and ]")
    given = _components(content[1:-1])
    mechanism, digest = _MECHANISMS[name]
    if "name" not in given:
        raise Invalid("You must supply 'name' to add-scram")
    salt = _decoded(given["salt"], "salt") if "salt" in given else None
    iterations = _iterations(given.get("iterations"))
    if "password" in given:
        salt = new_salt() if salt is None else salt
        salted = hashlib.pbkdf2_hmac(digest, given["password"].encode(), salt, iterations)
    elif "saltedpassword" not in given:
        raise Invalid("You must supply one of 'password' or 'saltedpassword' to add-scram")
    elif salt is None:
        raise Invalid("You must supply 'salt' with 'saltedpassword' to add-scram")
    else:
        salted = _decoded(given["saltedpassword"], "saltedpassword")
    try:
        return credential_record(ScramUpsertion(given["name"], mechanism, iterations, salt, salted))
    except KafkaError as error:
        raise Invalid(f"--add-scram for {given['name']!r}: {error.message}") from error


def _components(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for component in text.split(","):
        name, equals, value = component.partition("=")
        if not equals or name not in _COMPONENTS:
            raise Invalid(
                f"--add-scram: {name!r} is none of name, password, salt, saltedpassword and iterations with ="
            )
        if len(value) > 1 and value.startswith('"') and value.endswith('"'):
            value = value[1:-1]
        found[name] = value
    return found


def _iterations(text: str | None) -> int:
    if text is None:
        return ITERATIONS_MIN
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise Invalid(f"Failed to parse iterations count: {text}")
    # The bounds are checked with the credential; a count in the millions would be paid for before.
    return min(int(text), 100_000)


def _decoded(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid(f"--add-scram: failed to decode the given {name}; it is written in base64") from error
