"""The summary of a verification."""

from __future__ import annotations

from stratalog.tier.care.verify_partition import PartitionReport
from stratalog.tier.care.verify_summary import COLUMNS, VerifySummary, anomaly_row
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.anomaly import Anomaly, AnomalyKind
from stratalog.wire.topic import ZERO_UUID


def test_no_finding_is_clean():
    """And says what was looked at; keys of no partition are none."""
    summary = VerifySummary()
    summary.add(PartitionReport(PartitionId("orders", ZERO_UUID, 0), object_count=3, size_bytes=30))
    summary.add(PartitionReport(PartitionId("", ZERO_UUID, -1)))
    assert summary.conclusion("30 B") == "Clean: 1 partitions, 3 objects, 30 B."
    assert list(summary.advice()) == []
    assert summary.row() == {
        "what": "summary", "partitions": 1, "objects": 3, "bytes": 30, "anomalies": 0, "kinds": {}
    }  # fmt: skip


def test_anomalies_are_counted_by_kind_and_explained():
    """Those that are not listed count as well."""
    found = [Anomaly(AnomalyKind.WRONG_CRC, "orders", 0, f"key-{at}", at, "damaged") for at in range(2)]
    found.append(Anomaly(AnomalyKind.OFFSET_GAP, "orders", 0, "key", -1, "a hole"))
    summary = VerifySummary()
    summary.add(PartitionReport(PartitionId("orders", ZERO_UUID, 0), anomalies=found, untold=4))
    assert summary.anomaly_count == 7
    assert summary.row()["kinds"] == {"offset-gap": 1, "wrong-crc": 2}
    lines = list(summary.advice())
    assert lines[0].startswith("offset-gap (1): Offsets between two neighbouring entries are in no object. See")
    assert lines[1].startswith("wrong-crc (2): ")
    assert lines[2] == "4 more of the same kinds are not listed."
    assert summary.conclusion("1 B").startswith("7 anomalies in ")


def test_a_row_has_no_value_where_none_applies():
    """A topic, partition or offset that is not meant is None; each column has a heading."""
    row = anomaly_row(Anomaly(AnomalyKind.FOREIGN_KEY, "", -1, "topics/x", -1, "strange"))
    assert row == {
        "kind": "foreign-key", "topic": None, "partition": None, "offset": None, "key": "topics/x", "detail": "strange"
    }  # fmt: skip
    assert set(COLUMNS) == set(row)


def test_a_bucket_without_partitions_is_asked_about() -> None:
    """It is clean, and most likely not the one that was meant."""
    assert VerifySummary().conclusion("0 B") == "Clean, as nothing is archived there: is the URL right?"
