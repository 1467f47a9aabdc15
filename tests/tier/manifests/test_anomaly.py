from __future__ import annotations

from stratalog.tier.manifests.anomaly import Anomaly, AnomalyKind


def test_every_kind_is_injected_in_the_tests_and_has_its_texts(damages):
    """There are fifteen; a sixteenth would need a way to make it in ``damaged_archive.py``."""
    assert len(AnomalyKind) == 15
    assert all(callable(getattr(damages, kind.value.replace("-", "_"))) for kind in AnomalyKind)
    texts = [text for kind in AnomalyKind for text in (kind.meaning, kind.advice)]
    assert all(text.endswith(".") for text in texts)
    assert len({kind.meaning for kind in AnomalyKind}) == 15


def test_findings_differ_by_kind_key_and_offset():
    """Words may differ from one look to the next."""
    one = Anomaly(AnomalyKind.WRONG_CRC, "t", 0, "key", 5, "now so")
    assert one.identity == one._replace(detail="now otherwise").identity
    assert one.identity != one._replace(offset=6).identity
