"""Which quota holds for a client: the most specific of eight levels, for each kind of quota by itself (KIP-55).

.. code-block:: text

    1  user alice, client-id etl      5  any user, any client-id
    2  user alice, any client-id      6  any user
    3  user alice                     7  client-id etl
    4  any user, client-id etl        8  any client-id

Levels that name a client id are used up by each pair of user and client id alone, those of a user by all his clients
together, 7 and 8 by all clients of that id under any user. Source: Kafka's ``ClientQuotaManager``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from stratalog.metadata.controller.quotas import CONNECTION_CREATION_RATE
from stratalog.metadata.image.quotas_image import CLIENT_ID, IP, USER, QuotasImage, entity_of

__all__ = ["NO_QUOTAS", "ClientQuota", "QuotaTable"]

EVERYBODY: Final = ""
"""In a scope: whatever the name."""


class ClientQuota(NamedTuple):
    """A quota that holds for a client, and the clients that use it up together: (user, client id), "" for any."""

    bound: float
    scope: tuple[str, str]


class QuotaTable:
    """The quotas of an image, by key, ready to be asked."""

    __slots__ = ("_addresses", "_by_key")

    def __init__(self, image: QuotasImage) -> None:
        self._by_key: dict[str, dict[tuple[tuple[str, str | None], ...], float]] = {}
        self._addresses: dict[str | None, float] = {}
        for entity, quotas in image.by_entity.items():
            for key, bound in quotas.items():
                if entity[0][0] == IP:
                    if key == CONNECTION_CREATION_RATE:
                        self._addresses[entity[0][1]] = bound
                else:
                    self._by_key.setdefault(key, {})[entity] = bound

    @property
    def clients(self) -> bool:
        """Whether any user or client id has a quota."""
        return bool(self._by_key)

    @property
    def addresses(self) -> bool:
        """Whether any address has a quota."""
        return bool(self._addresses)

    def of_client(self, key: str, user: str, client_id: str) -> ClientQuota | None:
        """The quota called ``key`` of a client; None if there is none. A client without an id has none by its id."""
        quotas = self._by_key.get(key)
        if quotas is None:
            return None
        pair, alone, any_user = (user, client_id), (user, EVERYBODY), (EVERYBODY, client_id)
        levels: list[tuple[Mapping[str, str | None], tuple[str, str]]] = [
            ({USER: user, CLIENT_ID: client_id}, pair),
            ({USER: user, CLIENT_ID: None}, pair),
            ({USER: user}, alone),
            ({USER: None, CLIENT_ID: client_id}, pair),
            ({USER: None, CLIENT_ID: None}, pair),
            ({USER: None}, alone),
            ({CLIENT_ID: client_id}, any_user),
            ({CLIENT_ID: None}, any_user),
        ]
        for names, scope in levels:
            if CLIENT_ID in names and not client_id:
                continue
            bound = quotas.get(entity_of(names))
            if bound is not None:
                return ClientQuota(bound, scope)
        return None

    def of_address(self, address: str) -> float | None:
        """New connections a second that an address may make, or None."""
        own = self._addresses.get(address)
        return self._addresses.get(None) if own is None else own


NO_QUOTAS: Final = QuotaTable(QuotasImage())
"""No client is limited."""
