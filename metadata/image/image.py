"""The cluster as one immutable value, made from the records of ``__cluster_metadata``.

Records are gathered in an `ImageDelta`; :meth:`ImageDelta.build` makes the next image, which shares everything that
did not change with the one before: topics, settings and brokers of an image may serve as keys of caches. The image
costs nothing per request. Sources: Kafka's ``MetadataImage`` and ``MetadataDelta``; KIP-631.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from stratalog.metadata.access.acls import AclsDraft, AclsImage
from stratalog.metadata.image.brokers_image import BrokerImage, BrokersImage
from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource, ConfigsDraft, ConfigsImage
from stratalog.metadata.image.decision import at_once
from stratalog.metadata.image.features import check_level
from stratalog.metadata.image.quotas_image import QuotasImage
from stratalog.metadata.image.scram_image import ScramCredential, ScramImage
from stratalog.metadata.image.tokens_image import TokensImage
from stratalog.metadata.image.topics_image import TopicsDraft, TopicsImage
from stratalog.wire.errors import Corrupt
from stratalog.wire.records import metadata as records
from stratalog.wire.schema import Message
from stratalog.wire.topic import Uuid

__all__ = ["EMPTY_IMAGE", "INCARNATION", "ClusterImage", "ImageDelta", "Provenance"]

INCARNATION: Final = "stratalog.incarnation"
"""The setting, among the cluster-wide defaults, that holds the cluster's incarnation."""
_RULE_OBJECTS: Final = 5
_RECORDS_PER_PAUSE: Final = 100
_PARTITION_OBJECTS: Final = 3
"""With its place in the controller's index."""


class Provenance(NamedTuple):
    """How far an image goes: the last record it holds. -1 for an empty image."""

    offset: int = -1
    epoch: int = -1
    timestamp_ms: int = -1


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """Everything the metadata log says. ``version`` counts the images made; it does not count for equality."""

    provenance: Provenance = field(default=Provenance(), compare=False)
    features: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    brokers: BrokersImage = field(default_factory=BrokersImage)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: ConfigsImage = field(default_factory=ConfigsImage)
    next_producer_id: int = 0
    scram: ScramImage = field(default_factory=ScramImage)
    acls: AclsImage = field(default_factory=AclsImage)
    quotas: QuotasImage = field(default_factory=QuotasImage)
    tokens: TokensImage = field(default_factory=TokensImage)
    version: int = field(default=0, compare=False)

    @property
    def incarnation(self) -> int:
        """The cluster's incarnation, under which it writes to the bucket; raised only by a takeover."""
        return int(self.configs.of(CLUSTER_DEFAULT).get(INCARNATION, "0"))

    @property
    def lasting_objects(self) -> int:
        """The Python objects of rules and partitions, about; both may be very many."""
        return _RULE_OBJECTS * len(self.acls.by_id) + _PARTITION_OBJECTS * self.topics.partition_count

    def topic_configs(self, name: str) -> Mapping[str, str]:
        """The overrides of one topic."""
        return self.configs.of(ConfigResource.topic(name))

    def apply(self, batch: Iterable[Message], provenance: Provenance | None = None) -> ClusterImage:
        """The image after a batch of records. Raises `Corrupt` for a record that does not fit."""
        return at_once(self.applying)(batch, provenance)

    def applying(
        self, batch: Iterable[Message], provenance: Provenance | None = None
    ) -> Generator[None, None, ClusterImage]:
        """The same in steps."""
        delta = ImageDelta(self)
        for count, record in enumerate(batch, 1):
            yield from delta.replaying(record)
            if count % _RECORDS_PER_PAUSE == 0:
                yield
        return (yield from delta.building(provenance or self.provenance))


EMPTY_IMAGE: Final = ClusterImage()
"""The image of a log without records."""


class ImageDelta:
    """Records gathered on top of an image."""

    __slots__ = (
        "_acls",
        "_brokers",
        "_configs",
        "_features",
        "_next_producer_id",
        "_quotas",
        "_scram",
        "_tokens",
        "_topics",
        "base",
    )

    def __init__(self, base: ClusterImage) -> None:
        self.base = base
        self._topics = TopicsDraft(base.topics)
        self._configs = ConfigsDraft(base.configs)
        self._brokers = base.brokers
        self._features = base.features
        self._next_producer_id = base.next_producer_id
        self._scram = base.scram
        self._acls = AclsDraft(base.acls)
        self._quotas = base.quotas
        self._tokens = base.tokens

    @property
    def changed_topic_ids(self) -> frozenset[Uuid]:
        """Topics that are new or changed."""
        return self._topics.changed_ids

    @property
    def changed_partitions(self) -> Mapping[Uuid, Collection[int]]:
        """The partitions that are new or changed, by topic."""
        return self._topics.changed_partitions

    @property
    def removed_topics(self) -> Mapping[Uuid, str]:
        """Topics of the base that are gone: id to name."""
        return self._topics.removed

    @property
    def changed_resources(self) -> frozenset[ConfigResource]:
        """Holders of settings that may have changed."""
        return self._configs.changed

    def replay(self, record: Message) -> None:
        """Take one record in. Raises `Corrupt` for a record that does not fit what came before.

        Transaction markers are not known here: `stratalog.metadata.image.replay` resolves them.
        """
        handler = self._HANDLERS.get(type(record))
        if handler is None:
            raise Corrupt(f"a {type(record).__name__} cannot be applied to the image of the cluster")
        handler(self, record)

    def replaying(self, record: Message) -> Generator[None, None, None]:
        """The same in steps, for a record that changes very many things."""
        if isinstance(record, records.ClearElrRecord):
            yield from self._topics.clearing_eligible(record)
        else:
            self.replay(record)

    def build(self, provenance: Provenance) -> ClusterImage:
        """The next image."""
        return at_once(self.building)(provenance)

    def building(self, provenance: Provenance) -> Generator[None, None, ClusterImage]:
        """The same in steps."""
        version = self.base.version + 1
        return ClusterImage(
            provenance=provenance,
            features=self._features,
            brokers=self._brokers,
            topics=(yield from self._topics.building(version)),
            configs=self._configs.build(),
            next_producer_id=self._next_producer_id,
            scram=self._scram,
            acls=self._acls.build(),
            quotas=self._quotas,
            tokens=self._tokens,
            version=version,
        )

    def _register(self, record: records.RegisterBrokerRecord) -> None:
        self._brokers = self._brokers.with_broker(BrokerImage.of(record))

    def _unregister(self, record: records.UnregisterBrokerRecord) -> None:
        self._brokers = self._brokers.without(record)

    def _change_registration(self, record: records.BrokerRegistrationChangeRecord) -> None:
        self._brokers = self._brokers.with_change(record)

    def _fence(self, record: records.FenceBrokerRecord | records.UnfenceBrokerRecord) -> None:
        self._brokers = self._brokers.with_fencing(record)

    def _register_controller(self, record: records.RegisterControllerRecord) -> None:
        self._brokers = self._brokers.with_controller(record)

    def _create_topic(self, record: records.TopicRecord) -> None:
        self._topics.create(record)

    def _put_partition(self, record: records.PartitionRecord) -> None:
        self._topics.put_partition(record)

    def _change_partition(self, record: records.PartitionChangeRecord) -> None:
        self._topics.change_partition(record)

    def _remove_topic(self, record: records.RemoveTopicRecord) -> None:
        self._configs.forget(ConfigResource.topic(self._topics.remove(bytes(record.topic_id))))

    def _clear_eligible(self, record: records.ClearElrRecord) -> None:
        self._topics.clear_eligible(record)

    def _put_config(self, record: records.ConfigRecord) -> None:
        self._configs.put(record)

    def _set_feature(self, record: records.FeatureLevelRecord) -> None:
        check_level(record.name, record.feature_level)
        levels = {**self._features, record.name: record.feature_level}
        self._features = MappingProxyType({name: level for name, level in levels.items() if level != 0})

    def _set_producer_ids(self, record: records.ProducerIdsRecord) -> None:
        if record.next_producer_id < self._next_producer_id:
            raise Corrupt(f"a ProducerIdsRecord goes back from {self._next_producer_id} to {record.next_producer_id}")
        self._next_producer_id = record.next_producer_id

    def _put_credential(self, record: records.UserScramCredentialRecord) -> None:
        self._scram = self._scram.with_credential(record.name, record.mechanism, ScramCredential.of(record))

    def _remove_credential(self, record: records.RemoveUserScramCredentialRecord) -> None:
        self._scram = self._scram.without(record.name, record.mechanism)

    def _set_quota(self, record: records.ClientQuotaRecord) -> None:
        self._quotas = self._quotas.with_record(record)

    def _put_acl(self, record: records.AccessControlEntryRecord) -> None:
        self._acls.put(record)

    def _remove_acl(self, record: records.RemoveAccessControlEntryRecord) -> None:
        self._acls.remove(bytes(record.id))

    def _put_token(self, record: records.DelegationTokenRecord) -> None:
        self._tokens = self._tokens.with_record(record)

    def _remove_token(self, record: records.RemoveDelegationTokenRecord) -> None:
        self._tokens = self._tokens.without(record.token_id)

    def _nothing(self, _record: records.NoOpRecord | records.ZkMigrationStateRecord) -> None:
        """An idle leader's sign of life, or what is left of a way from ZooKeeper."""

    _HANDLERS: ClassVar[Mapping[type[Message], Callable[[Any, Any], None]]] = {
        records.RegisterBrokerRecord: _register,
        records.UnregisterBrokerRecord: _unregister,
        records.BrokerRegistrationChangeRecord: _change_registration,
        records.FenceBrokerRecord: _fence,
        records.UnfenceBrokerRecord: _fence,
        records.RegisterControllerRecord: _register_controller,
        records.TopicRecord: _create_topic,
        records.PartitionRecord: _put_partition,
        records.PartitionChangeRecord: _change_partition,
        records.RemoveTopicRecord: _remove_topic,
        records.ClearElrRecord: _clear_eligible,
        records.ConfigRecord: _put_config,
        records.FeatureLevelRecord: _set_feature,
        records.ProducerIdsRecord: _set_producer_ids,
        records.UserScramCredentialRecord: _put_credential,
        records.RemoveUserScramCredentialRecord: _remove_credential,
        records.ClientQuotaRecord: _set_quota,
        records.AccessControlEntryRecord: _put_acl,
        records.RemoveAccessControlEntryRecord: _remove_acl,
        records.DelegationTokenRecord: _put_token,
        records.RemoveDelegationTokenRecord: _remove_token,
        records.NoOpRecord: _nothing,
        records.ZkMigrationStateRecord: _nothing,
    }
