"""Settings of tiering that Kafka 4.3 does not have: the copy lag of Kafka 4.4 (KIP-1241), and our own.

Each topic setting has a broker setting as its default, which can be changed while the cluster runs: ours one of the
same name, Kafka's one with ``log.`` before it.
"""

from __future__ import annotations

from typing import Final

from stratalog.metadata.settings.catalogue.definition import INT, LONG, STRING, WIDE, ConfigDef, Synonym, setting
from stratalog.metadata.settings.catalogue.validators import StorageClassName, at_least, between

__all__ = ["PART_BYTES_DEFAULT", "TIERING_BROKER_SETTINGS", "TIERING_TOPIC_SETTINGS"]

_MIB: Final = 1 << 20
PART_BYTES_DEFAULT: Final = 16 * _MIB
_PART_BYTES: Final = between(5 * _MIB, 64 * _MIB)
_CLASS: Final = "stratalog.storage.class"
_COPY_BYTES: Final = "remote.copy.lag.bytes"
_COPY_MS: Final = "remote.copy.lag.ms"
_LAG: Final = "stratalog.upload.lag.ms"
_PART: Final = "stratalog.upload.part.bytes"

# fmt: off
TIERING_TOPIC_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting(_COPY_BYTES, LONG, -1, at_least(-1), internal=True, synonyms=(Synonym(f"log.{_COPY_BYTES}"),),
            doc="A segment is uploaded once this many bytes of the local log lie behind it; -1 means local.retention.bytes. "
                "Either lag is enough, and 0 in one of them means at once. Kafka 4.4 (KIP-1241)."),
    setting(_COPY_MS, LONG, 0, at_least(-1), internal=True, synonyms=(Synonym(f"log.{_COPY_MS}"),),
            doc="A segment is uploaded once its newest record is this old: the minimum age of what is archived; -1 means "
                "local.retention.ms, 0 at once. Never above local.retention.ms. Kafka 4.4 (KIP-1241)."),
    setting(_CLASS, STRING, "", StorageClassName(), synonyms=(Synonym(_CLASS),),
            doc="S3 storage class of the objects uploaded from now on, as STANDARD_IA; empty is the bucket's own. Other "
                "stores ignore it with a warning. Manifests stay in the bucket's own class."),
    setting(_LAG, LONG, 0, at_least(0), synonyms=(Synonym(_LAG),),
            doc="A segment is not uploaded before this long after it was sealed, by the broker's clock, unless "
                "local.retention.bytes would let it go. Never above local.retention.ms."),
    setting(_PART, INT, PART_BYTES_DEFAULT, _PART_BYTES, synonyms=(Synonym(_PART),),
            doc="Size of the parts of an upload of more than 64 MiB; the worker holds five of them. Not above segment.bytes."),
)
TIERING_BROKER_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting(f"log.{_COPY_BYTES}", LONG, -1, at_least(-1), mode=WIDE, internal=True,
            doc=f"Default of the topic setting {_COPY_BYTES}. Kafka 4.4 (KIP-1241)."),
    setting(f"log.{_COPY_MS}", LONG, 0, at_least(-1), mode=WIDE, internal=True,
            doc=f"Default of the topic setting {_COPY_MS}. Kafka 4.4 (KIP-1241)."),
    setting(_CLASS, STRING, "", StorageClassName(), mode=WIDE, doc=f"Default of the topic setting {_CLASS}."),
    setting(_LAG, LONG, 0, at_least(0), mode=WIDE, doc=f"Default of the topic setting {_LAG}."),
    setting(_PART, INT, PART_BYTES_DEFAULT, _PART_BYTES, mode=WIDE, doc=f"Default of the topic setting {_PART}."),
)
# fmt: on
