"""Tests of hot/recovery/interrupted.py."""

import pytest

from stratalog.hot.cleaner.records import emptied_batch
from stratalog.hot.recovery.interrupted import finish_interrupted
from stratalog.hot.segments.transaction_index import AbortedTxn, aborted_to_bytes
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import build_control_batch, read_header


@pytest.fixture
def run(files, tmp_path):
    def finish() -> tuple[bool, list[str]]:
        changed = finish_interrupted(files, str(tmp_path), files.scan(str(tmp_path)))
        return changed, [entry.name for entry in files.scan(str(tmp_path))]

    return finish


def test_unfinished_and_doomed_files_are_removed(run, tmp_path):
    """Renamed for deletion, half-written, half-cleaned."""
    for name in (f"{0:020d}.log", f"{5:020d}.log.deleted", "x.tmp", f"{7:020d}.log.cleaned", "other"):
        (tmp_path / name).write_bytes(b"")
    assert run() == (True, [f"{0:020d}.log", "other"])
    assert run() == (False, [f"{0:020d}.log", "other"])


def test_indexes_without_their_log_are_removed(run, tmp_path):
    """The crash came between the log and its indexes, which another segment of that offset must not find."""
    for name in (f"{0:020d}.log.deleted", f"{0:020d}.txnindex", f"{0:020d}.index", f"{5:020d}.index", f"{5:020d}.log"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / f"{9:020d}.snapshot").write_bytes(b"")
    assert run() == (True, [f"{5:020d}.index", f"{5:020d}.log", f"{9:020d}.snapshot"])


@pytest.mark.parametrize("suffix", [".index", ".index.deleted"])
def test_an_index_has_durably_left_before_its_log_is_removed(tmp_path, suffix):
    """A power cut in the middle may undo what was not synced, and an index that is left alone means a lost ``.log``."""
    for name in (f"{0:020d}.log.deleted", f"{0:020d}{suffix}", f"{5:020d}.log"):
        (tmp_path / name).write_bytes(b"")
    synced = []

    class Watched(RealFilesystem):
        def sync_directory(self, path: str) -> None:
            synced.append(sorted(one.name for one in tmp_path.iterdir()))
            super().sync_directory(path)

    files = Watched()
    assert finish_interrupted(files, str(tmp_path), files.scan(str(tmp_path)))
    left = [f"{0:020d}.index.deleted"] if suffix.endswith("deleted") else []
    assert synced == [[*left, f"{0:020d}.log.deleted", f"{5:020d}.log"]]


def test_a_swap_replaces_the_segments_it_covers(run, tmp_path, make_batch):
    """By the offsets of its batches; segments beside them stay."""
    for base in (0, 10, 20, 30):
        (tmp_path / f"{base:020d}.log").write_bytes(make_batch(base))
        (tmp_path / f"{base:020d}.index").write_bytes(b"")
    (tmp_path / f"{10:020d}.log.swap").write_bytes(make_batch(10, 5) + make_batch(25))
    (tmp_path / f"{10:020d}.index.swap").write_bytes(b"12345678")
    changed, names = run()
    assert changed
    assert names == [f"{base:020d}{suffix}" for base in (0, 10, 30) for suffix in (".index", ".log")]
    assert (tmp_path / f"{10:020d}.log").read_bytes() == make_batch(10, 5) + make_batch(25)
    assert (tmp_path / f"{10:020d}.index").read_bytes() == b"12345678"


def test_a_swap_interrupted_again_is_completed(run, tmp_path, make_batch):
    """Half of its files may have their names already."""
    (tmp_path / f"{10:020d}.log").write_bytes(make_batch(10))
    (tmp_path / f"{10:020d}.timeindex.swap").write_bytes(b"")
    assert run() == (True, [f"{10:020d}.log", f"{10:020d}.timeindex"])


def test_a_swap_without_the_name_of_its_log_is_void(run, tmp_path, make_batch):
    """It was interrupted before it counted: the old segment stays, with its own index."""
    (tmp_path / f"{10:020d}.log").write_bytes(make_batch(10))
    (tmp_path / f"{10:020d}.index").write_bytes(b"old")
    (tmp_path / f"{10:020d}.log.cleaned").write_bytes(b"")
    (tmp_path / f"{10:020d}.index.swap").write_bytes(b"new")
    assert run() == (True, [f"{10:020d}.index", f"{10:020d}.log"])
    assert (tmp_path / f"{10:020d}.index").read_bytes() == b"old"


def test_an_emptied_swap_replaces_the_segment_of_its_name(run, tmp_path, make_batch):
    """With all its files."""
    for base in (10, 20):
        (tmp_path / f"{base:020d}.log").write_bytes(make_batch(base))
    (tmp_path / f"{10:020d}.txnindex").write_bytes(b"old")
    (tmp_path / f"{10:020d}.log.swap").write_bytes(b"")
    assert run() == (True, [f"{10:020d}.log", f"{20:020d}.log"])
    assert (tmp_path / f"{10:020d}.log").read_bytes() == b""


@pytest.mark.parametrize("named", [".txnindex", ".index"])
def test_a_swap_whose_old_log_is_gone_keeps_the_names_that_new_files_have(run, tmp_path, make_batch, named):
    """A kill came in the last renames, or a power cut that kept any of them: nothing makes a `.txnindex` again."""
    for suffix in (".index", ".timeindex", ".txnindex"):
        (tmp_path / f"{10:020d}{suffix}{'' if suffix == named else '.swap'}").write_bytes(b"new")
    (tmp_path / f"{10:020d}.log.swap").write_bytes(make_batch(10) + make_batch(20))
    (tmp_path / f"{20:020d}.txnindex").write_bytes(b"old")
    assert run() == (True, [f"{10:020d}{suffix}" for suffix in (".index", ".log", ".timeindex", ".txnindex")])
    assert (tmp_path / f"{10:020d}{named}").read_bytes() == b"new"


@pytest.mark.parametrize(("markers", "stays"), [([12, 15], True), ([12], False), ([], False)])
def test_a_swap_keeps_no_index_of_aborted_transactions_whose_markers_have_gone(
    run, tmp_path, make_batch, markers, stays
):
    """Kafka puts no empty one in the place of the old one, and a kill left that. A reader drops what follows an entry without its marker."""
    path = tmp_path / f"{10:020d}.txnindex"
    path.write_bytes(aborted_to_bytes([AbortedTxn(7, 10, 12, 13), AbortedTxn(7, 13, 15, 16)]))
    for suffix in (".index", ".timeindex"):
        (tmp_path / f"{10:020d}{suffix}.swap").write_bytes(b"")
    batches = [
        build_control_batch(
            0,
            b"\0\0\0\0\0\1",
            offset=offset,
            timestamp_ms=1,
            leader_epoch=0,
            producer_id=7,
            producer_epoch=0,
            transactional=True,
        )
        for offset in markers
    ]
    emptied = emptied_batch(read_header(make_batch(15)))
    (tmp_path / f"{10:020d}.log.swap").write_bytes(b"".join([make_batch(10), *batches, emptied if not stays else b""]))
    assert run() == (
        True,
        [f"{10:020d}{suffix}" for suffix in (".index", ".log", ".timeindex", ".txnindex")[: 3 + stays]],
    )
