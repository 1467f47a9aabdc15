"""Broker settings of transactions."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.settings.catalogue.definition import BOOLEAN, INT, SHORT, WIDE, ConfigDef, setting
from stratalog.metadata.settings.catalogue.validators import at_least

__all__ = ["TRANSACTION_SETTINGS"]

_FIXED_READS: Final = "the log is read in steps of 256 KiB, so that no other request waits for it"
_NO_TWO_PHASES: Final = "two-phase commit (KIP-939, InitProducerId version 6) is not stable in Kafka 4.3 and not served"

# fmt: off
TRANSACTION_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, at_least(0),
            doc="How long a request waits for the end of the transaction before it, until the answer is to come again."),
    setting("add.partitions.to.txn.retry.backoff.ms", INT, 20, at_least(1),
            doc="Pause between two tries, where the coordinator is another broker; here it goes on at once."),
    setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000, at_least(1),
            doc="How often transactions that took too long are looked for."),
    setting("transaction.max.timeout.ms", INT, 900_000, at_least(1),
            doc="Longest timeout a producer may ask for."),
    setting("transaction.partition.verification.enable", BOOLEAN, True, mode=WIDE,
            doc="Check that a partition belongs to the transaction before its records are appended."),
    setting("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000, at_least(1),
            doc="How often expired transactional ids are looked for."),
    setting("transaction.state.log.load.buffer.size", INT, 5_242_880, at_least(1), unused=_FIXED_READS,
            doc="Bytes read at a time when transactions are loaded."),
    setting("transaction.state.log.min.isr", INT, 2, at_least(1),
            doc="min.insync.replicas of __transaction_state."),
    setting("transaction.state.log.num.partitions", INT, 50, at_least(1),
            doc="Partitions of __transaction_state; must not change later."),
    setting("transaction.state.log.replication.factor", SHORT, 3, at_least(1),
            doc="Replicas of __transaction_state."),
    setting("transaction.state.log.segment.bytes", INT, 104_857_600, at_least(1),
            doc="Segment size of __transaction_state."),
    setting("transaction.two.phase.commit.enable", BOOLEAN, False, unused=_NO_TWO_PHASES,
            doc="Let an outside coordinator hold transactions open (KIP-939)."),
    setting("transactional.id.expiration.ms", INT, 604_800_000, at_least(1),
            doc="How long an unused transactional id is remembered."),
)
# fmt: on
