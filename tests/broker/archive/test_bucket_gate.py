"""No write goes to a bucket before it was looked at, and none at all to a wrong one."""

import asyncio

import pytest
from msgspec.structs import replace

from stratalog.broker.archive import known_bucket
from stratalog.broker.archive.bucket_gate import BucketGate, GatePorts
from stratalog.broker.archive.known_bucket import read_known_bucket
from stratalog.broker.workers.io_worker import WRITES
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages import commands
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.work import Worker
from stratalog.wire.errors import Invalid

PARTITION = PartitionId("t", bytes(16), 0)
CLAIM = commands.Claim(PARTITION, Claimant(0, 1, b"u" * 16), 10, 0)
READ = commands.ReadManifest(PARTITION)
LETTING_GO = (commands.ReadBack(PARTITION, 0, 5, 0), replace(READ, lets_go=True))
"""Reads by which a follower lets local records go."""


class Rig:
    """A data directory, and one run on it after the other, with whatever bucket."""

    def __init__(self, tmp_path) -> None:
        self.directory = str(tmp_path)
        self.store = MemoryStore()
        self.sent, self.told = [], []
        self.archived = False
        self.down = False
        self.refused = None
        self.in_contact = True
        self.now_ms = 0
        self.run()

    def run(self) -> BucketGate:
        ports = GatePorts(
            submit=self.submit,
            files=RealFilesystem(),
            directory=self.directory,
            url="s3://b/p",
            cluster_id="c",
            node_id=1,
            incarnation=lambda: 0,
            archives_known=lambda: self.archived,
            second_timeline=self.told.append,
            in_contact=lambda: self.in_contact,
            now_ms=lambda: 7,
            elapsed_ms=lambda: self.now_ms,
        )
        self.gate = BucketGate(ports)
        return self.gate

    def submit(self, command, answered) -> None:
        self.sent.append(type(command).__name__)
        down = self.down or type(command) is self.refused
        report = commands.FailedReport("down", retriable=True) if down else Worker(self.store).execute(command)
        asyncio.get_running_loop().call_soon(answered, report)

    async def ask(self, command):
        done = asyncio.get_running_loop().create_future()
        self.gate.submit(command, done.set_result)
        return await asyncio.wait_for(done, 5)


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


async def test_the_first_write_signs_the_bucket(rig):
    """Later ones pass at once; reads never wait."""
    await rig.ask(READ)
    assert rig.sent == ["ReadManifest"]
    assert isinstance(await rig.ask(CLAIM), commands.ManifestRead)
    await rig.ask(CLAIM)
    assert rig.sent[1:] == ["LookAtBucket", "SignBucket", "Claim", "Claim"]
    known = read_known_bucket(RealFilesystem(), rig.directory)
    assert known == rig.gate.known
    assert known.bucket_id
    assert known.incarnation == 0
    assert rig.gate.start_uuid in rig.gate.made.ids


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
@pytest.mark.parametrize("is_open", [False, True])
async def test_no_write_begins_out_of_contact(rig, write, is_open):
    """The bucket hears of none of them, opened before or not; reads pass, and with the controller back writes do."""
    if is_open:
        await rig.ask(CLAIM)
    rig.sent.clear()
    rig.in_contact = False
    refused = await rig.ask(write(*write.__struct_fields__))
    assert isinstance(refused, commands.FailedReport)
    assert refused.retriable
    assert "the controller has not answered" in refused.message
    assert rig.sent == []
    await rig.ask(READ)
    rig.in_contact = True
    assert isinstance(await rig.ask(CLAIM), commands.ManifestRead)


async def test_a_start_on_another_bucket_is_refused_with_the_way_out(rig):
    """Also on an empty one; the right one is taken at once."""
    await rig.ask(CLAIM)
    right, rig.store = rig.store, MemoryStore()
    with pytest.raises(Invalid, match=r"is not the one .* no identity.*stratalog tier adopt --data"):
        await rig.run().look_at_start()
    rig.store = right
    await rig.run().look_at_start()
    assert not rig.told


async def test_a_bucket_that_does_not_answer_does_not_hold_a_start(rig):
    """It is looked at before the first write: a wrong one gets none, and no reads, until the right one is back."""
    await rig.ask(CLAIM)
    right, rig.store = rig.store, MemoryStore()
    rig.down = True
    gate = rig.run()
    await gate.look_at_start(0.2)
    assert isinstance(await rig.ask(CLAIM), commands.FailedReport)
    rig.down = False
    assert isinstance(await rig.ask(CLAIM), commands.LostReport)
    rig.sent.clear()
    assert isinstance(await rig.ask(READ), commands.LostReport)
    assert (rig.sent, list(rig.store.list(""))) == ([], [])
    assert "is not the one" in gate.wrong
    rig.store = right
    rig.now_ms += 5_000
    await rig.ask(CLAIM)
    await asyncio.sleep(0.01)
    assert isinstance(await rig.ask(CLAIM), commands.ManifestRead)
    assert gate.wrong == ""


@pytest.mark.parametrize("read", LETTING_GO, ids=lambda read: type(read).__name__)
async def test_no_local_record_goes_by_a_bucket_that_was_not_compared(rig, read):
    """A follower writes nothing: it had evicted by an empty bucket to which its leader had begun to archive."""
    await rig.ask(CLAIM)
    right, rig.store = rig.store, MemoryStore()
    rig.down = True
    gate = rig.run()
    await gate.look_at_start(0.2)
    rig.down = False
    rig.sent.clear()
    assert isinstance(await rig.ask(read), commands.LostReport)
    assert rig.sent == ["LookAtBucket"]
    assert "is not the one" in gate.wrong
    rig.store = right
    rig.now_ms += 5_000
    await rig.ask(read)
    await asyncio.sleep(0.01)
    rig.sent.clear()
    assert isinstance(await rig.ask(read), commands.VerifiedUpTo | commands.ManifestRead)
    assert rig.sent == [type(read).__name__]


@pytest.mark.parametrize("read", LETTING_GO, ids=lambda read: type(read).__name__)
async def test_a_directory_remembers_the_bucket_by_which_it_has_let_records_go(rig, read, tmp_path):
    """It has led nothing. Another bucket is refused from then on, and gets no archive that begins where this disk does."""
    await rig.ask(CLAIM)  # by its leader
    (tmp_path / "known-bucket").unlink()
    rig.run()
    rig.sent.clear()
    await rig.ask(read)
    await rig.ask(read)
    assert rig.sent == [
        "LookAtBucket",
        *[type(read).__name__] * 2,
    ]  # a probe of a slow store would keep copies out of sync
    assert read_known_bucket(RealFilesystem(), rig.directory).bucket_id
    rig.store = MemoryStore()
    with pytest.raises(Invalid, match="is not the one"):
        await rig.run().look_at_start()


@pytest.mark.parametrize("read", LETTING_GO, ids=lambda read: type(read).__name__)
async def test_a_directory_remembers_no_bucket_that_has_nothing_of_its_cluster(rig, read):
    """An empty disk and a wrong bucket: with the right one it starts."""
    rig.store.put("format.json", b'{"bucket_id": "other"}')
    await rig.ask(read)
    assert rig.sent == ["LookAtBucket", type(read).__name__]
    assert [one.key for one in rig.store.list("")] == ["format.json"]
    assert read_known_bucket(RealFilesystem(), rig.directory) is None
    both = [asyncio.ensure_future(rig.ask(one)) for one in (read, CLAIM)]
    assert isinstance((await asyncio.gather(*both))[1], commands.ManifestRead)
    assert read_known_bucket(RealFilesystem(), rig.directory).bucket_id


async def test_a_bucket_that_is_swapped_later_gets_no_new_archive(rig):
    """An unmounted file system, a bucket made anew: what would begin there is refused, and then nothing passes any more."""
    await rig.ask(CLAIM)
    right, rig.store = rig.store, MemoryStore()
    other = replace(CLAIM, partition=PARTITION._replace(partition=1))
    rig.now_ms += 5_000
    assert isinstance(await rig.ask(other), commands.LostReport)
    assert isinstance(await rig.ask(other), commands.LostReport)
    assert "is not the one" in rig.gate.wrong
    assert list(rig.store.list("")) == []
    rig.store = right
    rig.now_ms += 5_000
    await rig.ask(other)
    await asyncio.sleep(0.01)
    assert isinstance(await rig.ask(other), commands.ManifestRead)


async def test_a_loss_in_the_right_bucket_has_it_looked_at_once_in_a_while(rig):
    """Writes wait for the look, and go on."""
    await rig.ask(CLAIM)
    rig.now_ms += 5_000
    rig.store.delete_many([PARTITION.manifest_key])
    rig.sent.clear()
    for _ in range(3):
        assert isinstance(await rig.ask(replace(CLAIM, archived_end=5)), commands.LostReport)
    assert rig.sent == ["Claim", "LookAtBucket", "SignBucket", "Claim", "Claim"]


async def test_an_old_directory_is_taken_over_only_by_a_bucket_that_knows_its_cluster(rig, tmp_path):
    """It has archives and remembers no identity."""
    rig.archived = True
    with pytest.raises(Invalid, match="knows nothing of the cluster c"):
        await rig.run().look_at_start()
    rig.archived = False
    await rig.ask(CLAIM)
    (tmp_path / "known-bucket").unlink()
    rig.archived = True
    await rig.run().look_at_start()
    assert isinstance(await rig.ask(CLAIM), commands.ManifestRead)


async def test_a_note_of_an_unknown_start_is_logged_once_and_then_overwritten(rig, tmp_path):
    """The directory went back to a copy; the next run knows the note."""
    await rig.ask(CLAIM)
    copy = (tmp_path / "known-bucket").read_bytes()
    rig.run()
    await rig.ask(CLAIM)
    (tmp_path / "known-bucket").write_bytes(copy)
    await rig.run().look_at_start()
    assert len(rig.told) == 1
    assert "went back in time" in rig.told[0]
    await rig.ask(CLAIM)
    rig.told.clear()
    await rig.run().look_at_start()
    await rig.ask(CLAIM)
    assert rig.told == []


async def test_a_bucket_that_has_taken_no_note_for_long_shows_no_other_timeline(rig, monkeypatch):
    """Hundreds of starts were written down here, in a loop of crashes; none got as far as the bucket."""
    await rig.ask(CLAIM)
    with monkeypatch.context() as broken:
        broken.setattr(known_bucket, "STARTS_MAX", 3)
        for _ in range(5):
            rig.refused = commands.SignBucket
            rig.run()
            await rig.ask(CLAIM)
        rig.refused = None
        await rig.run().look_at_start()
        assert isinstance(await rig.ask(CLAIM), commands.ManifestRead)
    assert rig.told == []


async def test_a_disk_that_refuses_the_note_gets_no_write_through(rig, monkeypatch):
    """A start that wrote to the bucket and was forgotten would look like another timeline."""
    import stratalog.broker.archive.bucket_gate as module

    def refuse(*_):
        raise OSError("full")

    monkeypatch.setattr(module, "write_known_bucket", refuse)
    report = await rig.ask(CLAIM)
    assert isinstance(report, commands.FailedReport)
    assert list(rig.store.list("")) == []
