"""Broker settings of TLS (``ssl.*``)."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.settings.catalogue.definition import (
    BOOLEAN,
    CLASS,
    LIST,
    PASSWORD,
    PER_BROKER,
    STRING,
    ConfigDef,
    setting,
)
from stratalog.metadata.settings.catalogue.validators import AnyList, OneOf

__all__ = ["TLS_SETTINGS"]

_NO_TLS: Final = "listeners speak plain text in this release"
_NO_JAVA: Final = "there is no Java security provider here"

# fmt: off
TLS_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("ssl.allow.dn.changes", BOOLEAN, False, unused=_NO_TLS,
            doc="Let a certificate that is replaced at run time have another distinguished name."),
    setting("ssl.allow.san.changes", BOOLEAN, False, unused=_NO_TLS,
            doc="Let a certificate that is replaced at run time have other alternative names."),
    setting("ssl.cipher.suites", LIST, (), AnyList(), mode=PER_BROKER, unused=_NO_TLS,
            doc="Cipher suites that are offered; empty is all of them."),
    setting("ssl.client.auth", STRING, "none", OneOf(("required", "requested", "none")), mode=PER_BROKER,
            unused=_NO_TLS, doc="Whether a client must show a certificate."),
    setting("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), AnyList(), mode=PER_BROKER, unused=_NO_TLS,
            doc="Versions of TLS that are offered."),
    setting("ssl.endpoint.identification.algorithm", STRING, "https", mode=PER_BROKER, unused=_NO_TLS,
            doc="How the name of another broker is checked against its certificate."),
    setting("ssl.engine.factory.class", CLASS, None, mode=PER_BROKER, unused=_NO_JAVA,
            doc="Class that makes TLS engines."),
    setting("ssl.key.password", PASSWORD, None, mode=PER_BROKER, unused=_NO_TLS, doc="Password of the private key."),
    setting("ssl.keymanager.algorithm", STRING, "SunX509", mode=PER_BROKER, unused=_NO_JAVA,
            doc="Java's algorithm for key managers."),
    setting("ssl.keystore.certificate.chain", PASSWORD, None, mode=PER_BROKER, unused=_NO_TLS,
            doc="Certificate chain as PEM text."),
    setting("ssl.keystore.key", PASSWORD, None, mode=PER_BROKER, unused=_NO_TLS, doc="Private key as PEM text."),
    setting("ssl.keystore.location", STRING, None, mode=PER_BROKER, unused=_NO_TLS, doc="File of the key store."),
    setting("ssl.keystore.password", PASSWORD, None, mode=PER_BROKER, unused=_NO_TLS,
            doc="Password of the key store."),
    setting("ssl.keystore.type", STRING, "JKS", mode=PER_BROKER, unused=_NO_TLS,
            doc="Format of the key store: JKS, PKCS12 or PEM."),
    setting("ssl.principal.mapping.rules", STRING, "DEFAULT", unused=_NO_TLS,
            doc="Rules that turn a distinguished name into the name of a principal."),
    setting("ssl.protocol", STRING, "TLSv1.3", mode=PER_BROKER, unused=_NO_TLS, doc="Preferred version of TLS."),
    setting("ssl.provider", STRING, None, mode=PER_BROKER, unused=_NO_JAVA, doc="Java's security provider."),
    setting("ssl.secure.random.implementation", STRING, None, mode=PER_BROKER, unused=_NO_JAVA,
            doc="Java's source of random numbers."),
    setting("ssl.trustmanager.algorithm", STRING, "PKIX", mode=PER_BROKER, unused=_NO_JAVA,
            doc="Java's algorithm for trust managers."),
    setting("ssl.truststore.certificates", PASSWORD, None, mode=PER_BROKER, unused=_NO_TLS,
            doc="Trusted certificates as PEM text."),
    setting("ssl.truststore.location", STRING, None, mode=PER_BROKER, unused=_NO_TLS,
            doc="File of the trust store."),
    setting("ssl.truststore.password", PASSWORD, None, mode=PER_BROKER, unused=_NO_TLS,
            doc="Password of the trust store."),
    setting("ssl.truststore.type", STRING, "JKS", mode=PER_BROKER, unused=_NO_TLS,
            doc="Format of the trust store: JKS, PKCS12 or PEM."),
)
# fmt: on
