"""Broker settings of SASL, principals and delegation tokens."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.settings.catalogue.definition import (
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    PER_BROKER,
    SHORT,
    STRING,
    ConfigDef,
    setting,
)
from stratalog.metadata.settings.catalogue.validators import AnyList, at_least

__all__ = ["SASL_SETTINGS", "TOKEN_SETTINGS"]

_NO_SASL: Final = "clients are not authenticated in this release"
_NO_KERBEROS: Final = "Kerberos is not spoken"
_NO_JAVA: Final = "a Java class cannot be loaded here"
_NO_TOKENS: Final = "delegation tokens are not served"
_PRINCIPALS: Final = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"

# fmt: off
SASL_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("connections.max.reauth.ms", LONG, 0, unused=_NO_SASL,
            doc="Time after which a client must authenticate again; 0 is never."),
    setting("principal.builder.class", CLASS, _PRINCIPALS, mode=PER_BROKER, unused=_NO_JAVA,
            doc="Class that makes the principal of a connection."),
    setting("sasl.client.callback.handler.class", CLASS, None, unused=_NO_JAVA,
            doc="Class that answers for the broker as a client."),
    setting("sasl.enabled.mechanisms", LIST, ("GSSAPI",), AnyList(), mode=PER_BROKER, unused=_NO_SASL,
            doc="SASL mechanisms that are offered."),
    setting("sasl.jaas.config", PASSWORD, None, mode=PER_BROKER, unused=_NO_SASL,
            doc="Login parameters in the form of a JAAS file."),
    setting("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", mode=PER_BROKER, unused=_NO_KERBEROS,
            doc="Path of kinit."),
    setting("sasl.kerberos.min.time.before.relogin", LONG, 60_000, mode=PER_BROKER, unused=_NO_KERBEROS,
            doc="Pause between two logins."),
    setting("sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",), mode=PER_BROKER, unused=_NO_KERBEROS,
            doc="Rules that shorten the names of principals."),
    setting("sasl.kerberos.service.name", STRING, None, mode=PER_BROKER, unused=_NO_KERBEROS,
            doc="Name of the service."),
    setting("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, mode=PER_BROKER, unused=_NO_KERBEROS,
            doc="Share of chance in the time of renewal."),
    setting("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, mode=PER_BROKER, unused=_NO_KERBEROS,
            doc="Share of a ticket's life after which it is renewed."),
    setting("sasl.login.callback.handler.class", CLASS, None, unused=_NO_JAVA, doc="Class that answers at login."),
    setting("sasl.login.class", CLASS, None, unused=_NO_JAVA, doc="Class that logs in."),
    setting("sasl.login.refresh.buffer.seconds", SHORT, 300, mode=PER_BROKER, unused=_NO_SASL,
            doc="Time left of a credential at which it is refreshed at the latest."),
    setting("sasl.login.refresh.min.period.seconds", SHORT, 60, mode=PER_BROKER, unused=_NO_SASL,
            doc="Shortest time between two refreshes."),
    setting("sasl.login.refresh.window.factor", DOUBLE, 0.8, mode=PER_BROKER, unused=_NO_SASL,
            doc="Share of a credential's life after which it is refreshed."),
    setting("sasl.login.refresh.window.jitter", DOUBLE, 0.05, mode=PER_BROKER, unused=_NO_SASL,
            doc="Share of chance in that time."),
    setting("sasl.mechanism.controller.protocol", STRING, "GSSAPI", unused=_NO_SASL,
            doc="Mechanism towards controllers."),
    setting("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", mode=PER_BROKER, unused=_NO_SASL,
            doc="Mechanism towards other brokers."),
    setting("sasl.server.callback.handler.class", CLASS, None, unused=_NO_JAVA,
            doc="Class that answers for the server."),
    setting("sasl.server.max.receive.size", INT, 524_288, unused=_NO_SASL,
            doc="Largest message before a client is authenticated."),
    setting("security.providers", STRING, None, unused="there is no Java security provider here",
            doc="Classes that make security providers."),
)

TOKEN_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("delegation.token.expiry.check.interval.ms", LONG, 3_600_000, at_least(1), unused=_NO_TOKENS,
            doc="How often expired tokens are looked for."),
    setting("delegation.token.expiry.time.ms", LONG, 86_400_000, at_least(1), unused=_NO_TOKENS,
            doc="How long a token is valid before it must be renewed."),
    setting("delegation.token.max.lifetime.ms", LONG, 604_800_000, at_least(1), unused=_NO_TOKENS,
            doc="How long a token can be renewed."),
    setting("delegation.token.secret.key", PASSWORD, None, unused=_NO_TOKENS,
            doc="Key with which tokens are signed, the same on all brokers."),
)
# fmt: on
