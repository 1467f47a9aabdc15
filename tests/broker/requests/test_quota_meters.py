"""The use of quotas: shared meters, their lifetime, and how they are shown."""

from types import SimpleNamespace

import pytest

from stratalog.broker.requests.quota_meters import MeterKind, Meters, RateMeter
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.settings.config import load_config
from stratalog.metadata.image.quotas_image import QuotasImage, entity_of, record_of
from stratalog.metadata.quotas.resolution import QuotaTable


def table(*quotas):
    """The quotas of ``(names, key, value)``."""
    image = QuotasImage()
    for names, key, value in quotas:
        image = image.with_record(record_of(entity_of(names), key, value))
    return QuotaTable(image)


@pytest.fixture
def world():
    """Meters of small windows, a clock that is moved by hand, and what is shown of them."""
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    settings = ["quota.window.num=3", "quota.window.size.seconds=2", "controller.quota.window.num=5"]
    config = load_config(assignments=settings, environment={}, host_name="localhost")
    metrics = Metrics()
    return SimpleNamespace(clock=clock, meters=Meters(config, clock, metrics), metrics=metrics)


def test_a_meter_is_that_of_its_scope(world):
    """Clients of one user share his; each pair of user and client id has its own; who has no quota has none."""
    world.meters.table = table(
        ({"user": "u"}, "producer_byte_rate", 10.0), ({"user": None, "client-id": None}, "consumer_byte_rate", 20.0)
    )
    rate = world.meters.rate
    assert rate(MeterKind.PRODUCE, "u", "a") is rate(MeterKind.PRODUCE, "u", "b")
    assert rate(MeterKind.FETCH, "u", "a") is not rate(MeterKind.FETCH, "u", "b")
    assert rate(MeterKind.PRODUCE, "v", "a") is None
    assert world.meters.mutation("u", "a") is None


def test_settings_say_how_long_the_windows_are(world):
    """Three windows of two seconds: four seconds' worth at once. Five tokens' seconds for changes."""
    world.meters.table = table(
        ({"user": "u"}, "request_percentage", 10.0), ({"user": "u"}, "controller_mutation_rate", 2.0)
    )
    assert world.meters.rate(MeterKind.REQUEST, "u", "").burst == 40
    assert world.meters.window_seconds == 2
    meter = world.meters.mutation("u", "")
    assert meter.bucket.tokens(meter.bound, 0.0) == 10


def test_another_bound_forgets_nothing(world):
    """Earlier use counts against the new quota."""
    world.meters.table = table(({"user": "u"}, "producer_byte_rate", 1000.0))
    meter = world.meters.rate(MeterKind.PRODUCE, "u", "")
    meter.windows.use(500, meter.bound, 100.0)
    world.meters.table = table(({"user": "u"}, "producer_byte_rate", 10.0))
    again = world.meters.rate(MeterKind.PRODUCE, "u", "")
    assert (again is meter, again.bound, again.windows.total(100.0)) == (True, 10, 500)


def test_meters_are_kept_until_nothing_is_left_in_them(world):
    """Then a new one would do as well; changes of the cluster until their bucket is full."""
    world.meters.table = table(
        ({"client-id": None}, "producer_byte_rate", 10.0), ({"client-id": None}, "controller_mutation_rate", 1.0)
    )
    kept = world.meters.rate(MeterKind.PRODUCE, "", "kept")
    mutations = world.meters.mutation("", "kept")
    for number in range(3000):
        world.meters.rate(MeterKind.PRODUCE, "", str(number))
        world.meters.mutation("", str(number))
        world.meters.of_address("connection_creation_rate", str(number))
        kept.windows.use(1, kept.bound, world.clock.now)
        mutations.bucket.take(1, mutations.bound, world.clock.now)
    sizes = [len(one) for one in (world.meters._rates, world.meters._mutations, world.meters._addresses)]
    assert max(sizes) < 2000
    assert world.meters.rate(MeterKind.PRODUCE, "", "kept") is kept
    assert world.meters.mutation("", "kept") is mutations
    assert not kept.idle(world.clock.now)
    assert not mutations.idle(world.clock.now)
    world.clock.now += 10_000
    assert kept.idle(world.clock.now)
    assert mutations.idle(world.clock.now)


def test_figures_have_kafkas_names(world):
    """Rates, tokens, and for how long a client is muted."""
    world.meters.table = table(
        ({"user": "u", "client-id": "c"}, "producer_byte_rate", 10.0), ({"user": "u"}, "controller_mutation_rate", 1.0)
    )
    meter = world.meters.rate(MeterKind.PRODUCE, "u", "c")
    meter.windows.use(400, meter.bound, 100.0)
    meter.throttled(2.5, 100.0)
    world.meters.mutation("u", "c").throttled(1.0, 99.0)
    text = world.metrics.render().decode()
    assert 'kafka_server_produce_byte_rate{client_id="c",user="u"} 100.0' in text
    assert 'kafka_server_produce_throttle_time{client_id="c",user="u"} 2500.0' in text
    assert 'kafka_server_controllermutation_tokens{client_id="",user="u"} 5.0' in text
    assert 'kafka_server_controllermutation_throttle_time{client_id="",user="u"} 0.0' in text
    assert 'stratalog_quota_throttles_total{client_id="c",quota="producer_byte_rate",user="u"} 1.0' in text
    assert 'stratalog_quota_throttles_total{client_id="",quota="controller_mutation_rate",user="u"} 1.0' in text


def many(world, count):
    """Meters of clients with a quota by default, each used once."""
    world.meters.table = table(({"client-id": None}, "producer_byte_rate", 1000.0))
    for at in range(count):
        world.meters.rate(MeterKind.PRODUCE, "u", f"other-{at}").windows.use(1, 1000.0, world.clock.now)


def test_a_meter_that_a_client_holds_is_kept(world):
    """Idle or not: another one would be a second quota, and what the client uses of the first would not be shown."""
    world.meters.table = table(({"client-id": None}, "producer_byte_rate", 1000.0))
    held = world.meters.rate(MeterKind.PRODUCE, "u", "a")
    many(world, 2000)
    world.clock.now += 100
    for at in range(2000):
        world.meters.rate(MeterKind.PRODUCE, "u", f"later-{at}")
    assert world.meters.rate(MeterKind.PRODUCE, "u", "a") is held
    assert "other-5" not in {row[0]["client_id"] for row in world.meters.rates(MeterKind.PRODUCE) if row}


def test_no_new_client_looks_at_all_the_others(world, monkeypatch):
    """A request that brings one pays for a few: the loop serves the others meanwhile."""
    many(world, 3000)
    looks = []
    monkeypatch.setattr(RateMeter, "idle", lambda self, now: looks.append(now))
    world.meters.rate(MeterKind.PRODUCE, "u", "new")
    assert len(looks) <= 2


def test_figures_of_many_clients_have_places_for_pauses(world):
    """None of them holds the loop for more than some hundred rows, also while clients come and go in a pause."""
    many(world, 2000)
    run = longest = 0
    for part in world.metrics.exposition():
        run = 0 if part is None else run + part.count(b"other-")
        longest = max(longest, run if part is None or len(part) < 64 else part.count(b"other-"))
        if part is None:
            world.meters.rate(MeterKind.PRODUCE, "u", f"new-{longest}")
    assert longest <= 500
    assert list(world.meters.rates(MeterKind.PRODUCE)).count(None) == 4
