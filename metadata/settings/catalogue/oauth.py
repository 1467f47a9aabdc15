"""Broker settings of OAuth bearer tokens (``sasl.oauthbearer.*`` and the login they need)."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.settings.catalogue.definition import (
    BOOLEAN,
    CLASS,
    INT,
    LIST,
    LONG,
    PASSWORD,
    STRING,
    ConfigDef,
    setting,
)
from stratalog.metadata.settings.catalogue.validators import AnyList, IgnoreCaseOneOf, between

__all__ = ["OAUTH_SETTINGS"]

_NO_OAUTH: Final = "OAuth bearer tokens are not accepted in this release"
_RETRIEVER: Final = "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever"
_VALIDATOR: Final = "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator"

# fmt: off
OAUTH_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("sasl.login.connect.timeout.ms", INT, None, unused=_NO_OAUTH,
            doc="Longest wait for a connection to the identity provider."),
    setting("sasl.login.read.timeout.ms", INT, None, unused=_NO_OAUTH,
            doc="Longest wait for an answer of the identity provider."),
    setting("sasl.login.retry.backoff.max.ms", LONG, 10_000, unused=_NO_OAUTH, doc="Longest pause between logins."),
    setting("sasl.login.retry.backoff.ms", LONG, 100, unused=_NO_OAUTH, doc="First pause between logins."),
    setting("sasl.oauthbearer.assertion.algorithm", STRING, "RS256", IgnoreCaseOneOf(("ES256", "RS256")),
            unused=_NO_OAUTH, doc="Algorithm that signs an assertion."),
    setting("sasl.oauthbearer.assertion.claim.aud", STRING, None, unused=_NO_OAUTH, doc="Audience of an assertion."),
    setting("sasl.oauthbearer.assertion.claim.exp.seconds", INT, 300, between(0, 86_400), unused=_NO_OAUTH,
            doc="How long an assertion is valid."),
    setting("sasl.oauthbearer.assertion.claim.iss", STRING, None, unused=_NO_OAUTH, doc="Issuer of an assertion."),
    setting("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, False, unused=_NO_OAUTH,
            doc="Whether an assertion carries an id of its own."),
    setting("sasl.oauthbearer.assertion.claim.nbf.seconds", INT, 60, between(0, 3600), unused=_NO_OAUTH,
            doc="How far back the validity of an assertion begins."),
    setting("sasl.oauthbearer.assertion.claim.sub", STRING, None, unused=_NO_OAUTH, doc="Subject of an assertion."),
    setting("sasl.oauthbearer.assertion.file", STRING, None, unused=_NO_OAUTH, doc="File of a ready assertion."),
    setting("sasl.oauthbearer.assertion.private.key.file", STRING, None, unused=_NO_OAUTH,
            doc="File of the key that signs assertions."),
    setting("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None, unused=_NO_OAUTH,
            doc="Passphrase of that file."),
    setting("sasl.oauthbearer.assertion.template.file", STRING, None, unused=_NO_OAUTH,
            doc="File of headers and claims every assertion carries."),
    setting("sasl.oauthbearer.client.credentials.client.id", STRING, None, unused=_NO_OAUTH,
            doc="Name of the client at the identity provider."),
    setting("sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None, unused=_NO_OAUTH,
            doc="Secret of that client."),
    setting("sasl.oauthbearer.clock.skew.seconds", INT, 30, unused=_NO_OAUTH,
            doc="Difference of clocks that is tolerated."),
    setting("sasl.oauthbearer.expected.audience", LIST, (), AnyList(), unused=_NO_OAUTH,
            doc="Audiences; a token must name one of them."),
    setting("sasl.oauthbearer.expected.issuer", STRING, None, unused=_NO_OAUTH, doc="Issuer a token must name."),
    setting("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3_600_000, unused=_NO_OAUTH,
            doc="How often the provider's keys are fetched."),
    setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10_000, unused=_NO_OAUTH,
            doc="Longest pause before they are tried again."),
    setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100, unused=_NO_OAUTH,
            doc="First pause before they are tried again."),
    setting("sasl.oauthbearer.jwks.endpoint.url", STRING, None, unused=_NO_OAUTH,
            doc="Where the provider's keys are found."),
    setting("sasl.oauthbearer.jwt.retriever.class", CLASS, _RETRIEVER, unused=_NO_OAUTH,
            doc="Class that asks for tokens."),
    setting("sasl.oauthbearer.jwt.validator.class", CLASS, _VALIDATOR, unused=_NO_OAUTH,
            doc="Class that checks tokens."),
    setting("sasl.oauthbearer.scope", STRING, None, unused=_NO_OAUTH, doc="Scope that is asked for."),
    setting("sasl.oauthbearer.scope.claim.name", STRING, "scope", unused=_NO_OAUTH,
            doc="Claim in which the provider puts the scope."),
    setting("sasl.oauthbearer.sub.claim.name", STRING, "sub", unused=_NO_OAUTH,
            doc="Claim in which the provider puts the subject."),
    setting("sasl.oauthbearer.token.endpoint.url", STRING, None, unused=_NO_OAUTH, doc="Where tokens are asked for."),
)
# fmt: on
