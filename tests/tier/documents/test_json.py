"""JSON from the bucket is bounded, and what is wrong with it is `Corrupt` in every parser."""

import ast
from pathlib import Path

import pytest
import zstandard

from stratalog.cli.dump.archive import dump_json
from stratalog.tier.bucket.catalogue import read_catalogue
from stratalog.tier.bucket.cuts import cut_from_bytes
from stratalog.tier.bucket.erasure_audit import read_audit
from stratalog.tier.bucket.walk import iter_topics, read_topic_document
from stratalog.tier.documents.json import DOCUMENT_BYTES_MAX, decompressed, parse_json
from stratalog.tier.documents.keys import PartitionId, topic_key
from stratalog.tier.manifests import leases
from stratalog.tier.manifests.json import from_bytes
from stratalog.tier.manifests.pages import compressed
from stratalog.tier.messages.group_copy import group_copy_from_bytes
from stratalog.tier.messages.projection import WriteProjection, write_projection
from stratalog.tier.objects.footer import encode_trailer, read_footer
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.wire.errors import Corrupt, Invalid

ROOT = Path(__file__).resolve().parents[3]
TOPIC_ID = b"t" * 16
DEEP = b"[" * 100_000


def stored(data, key="k"):
    store = MemoryStore("json")
    store.put(key, data)
    return store


def footer(data):
    return read_footer(data + encode_trailer(0, data, 0), len(data) + 32)


PARSERS = {
    "manifest": lambda data: from_bytes(data, "k"),
    "cut": lambda data: cut_from_bytes(data, "k"),
    "lease": lambda data: leases.from_bytes(data, "k"),
    "group copy": lambda data: group_copy_from_bytes(data, "k"),
    "footer": footer,
    "record of an erasure": lambda data: read_audit(stored(data), "k"),
    "dump": lambda data: list(dump_json(stored(data), "k")),
    "dump of what is compressed": lambda data: list(dump_json(stored(compressed(data), "k.zst"), "k.zst")),
}


@pytest.mark.parametrize(
    "data",
    [DEEP, b'{"a":' * 100_000, b"{", b"9" * 10_000, b"\xff"],
    ids=["list", "object", "torn", "number", "no text"],
)
@pytest.mark.parametrize("parser", PARSERS)
def test_unparsable_json_is_corrupt(parser, data):
    """Nested a hundred thousand deep, too: a RecursionError would pass all that waits for damage."""
    with pytest.raises(Corrupt):
        PARSERS[parser](data)


@pytest.mark.parametrize("value", [b"null", b"7", b"[]", b'"x"', b"{}"])
@pytest.mark.parametrize("parser", [name for name in PARSERS if not name.startswith("dump")])
def test_another_kind_of_value_is_corrupt(parser, value):
    """JSON, and none of ours."""
    with pytest.raises(Corrupt):
        PARSERS[parser](value)


def test_a_topic_description_that_cannot_be_parsed_is_left_aside():
    """The manifests stand in for it, and the catalogue says so."""
    key = topic_key("t", TOPIC_ID)
    store = stored(DEEP, key)
    store.put(PartitionId("t", TOPIC_ID, 0).manifest_key, b"{}")
    catalogue = read_catalogue(store)
    assert [topic.name for topic in catalogue.topics] == ["t"]
    assert "nested too deeply" in catalogue.problems[0]
    assert not read_topic_document(store, next(iter_topics(store))).found


def test_a_projection_over_what_cannot_be_parsed_says_what_to_do():
    """It is not overwritten: what stands there may be of use to who reads it."""
    with pytest.raises(Invalid, match=r"nested too deeply .* Remove it"):
        write_projection(stored(DEEP), WriteProjection("k", {"format": "f", "version": 1}))


def test_a_document_has_a_size():
    """A larger document is not ours."""
    with pytest.raises(Corrupt, match="k has 101 bytes of JSON, more than the 100"):
        parse_json(b" " * 101, "k", limit_bytes=100)
    with pytest.raises(Corrupt, match="k holds 3 objects, more than the 2"):
        parse_json(b"[{},{},{}]", "k", objects_max=2)
    assert parse_json(memoryview(b"[{},{}]"), "k", objects_max=2) == [{}, {}]


@pytest.mark.parametrize("data", [b"", b"abc", zstandard.ZstdCompressor().compress(b"x" * 100)[:-3]])
def test_torn_frames_are_corrupt(data):
    """Damaged frames raise `Corrupt` instead of the library's own error."""
    with pytest.raises(Corrupt, match="damaged"):
        decompressed(data, "k")


def test_a_frame_that_claims_too_much_is_refused():
    """Before memory is taken for it."""
    with pytest.raises(Corrupt, match="claims to hold 11 bytes, it can hold at most 10"):
        decompressed(compressed(b"x" * 11), "k", 10)
    bomb = compressed(bytes(DOCUMENT_BYTES_MAX + 1))
    assert len(bomb) < 10_000
    with pytest.raises(Corrupt, match="can hold at most 16777216"):
        decompressed(bomb, "k")


ELSEWHERE = {
    "tier/documents/json.py": "the parser itself",
    "tier/stores/local_files.py": "files beside a bucket that is a folder",
    "tier/documents/unknown_fields.py": "text that we have written ourselves",
}


def test_all_json_of_the_bucket_goes_through_the_parser():
    """In the room that reads buckets nothing else calls `json.loads`, except where it is known why."""
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tier").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "loads" and ast.unparse(node) == "json.loads"
    }
    assert found == set(ELSEWHERE)
