"""The page of the tier, in a real browser: what it says, to whom, and how it looks."""

import re

import pytest

SCHEMES = ("light", "dark")
TOO_WIDE = """() => [...document.body.querySelectorAll(':not(thead, thead *)')]
    .filter(one => one.getBoundingClientRect().right > window.innerWidth + 0.5 && getComputedStyle(one).clipPath === 'none')
    .map(one => one.outerHTML.slice(0, 200))"""


def checked(look):
    """The console has no error, no request left for other hosts, and axe finds no fault."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(
        look.page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
    )
    assert found.response["violations"] == [], found.generate_report()
    assert look.complaints == []
    assert {url.split("/")[2] for url in look.asked} == {look.url.split("/")[2]}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_broker_without_tiered_topics_says_how_to_begin(site, look, scheme):
    """The empty state is a sentence, a command, and what there is instead."""
    site.broker.create_topic("plain")
    one = look(site, scheme=scheme).go()
    assert one.page.get_by_role("heading", level=1).inner_text() == "No topic is tiered yet"
    assert "stratalog tier set TOPIC --enable" in one.page.locator("#empty").inner_text()
    checked(one)
    one.picture(f"empty-{scheme}")
    one.page.get_by_role("button", name="Show the topics that are on this disk only").click()
    one.wait_text("#table", "plain")
    assert [name for name in one.rows() if name.startswith("plain")] == ["plain partition 0"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_partition_has_its_bar(busy, look, scheme):
    """In words too: what is only in the bucket, in both places, still here. And when the bucket was last verified."""
    busy.verified(anomalies=0)
    one = look(busy, scheme=scheme).go()
    one.wait_text("#headline", "Everything that is due is in the bucket")
    assert one.page.locator("#figure-verified .note").inner_text() == "clean (deep, all topics)"
    rows = one.rows()
    assert len(rows) == 9, "3 topics, two of them with 4 and 2 partitions"
    assert "in the bucket only" in rows["payments, partition 1"]["bar"]
    assert "in both" in rows["orders, partition 3"]["bar"]
    assert rows["clicks.eu-west.raw partition 0"]["bar"] == "100 % on this disk only"
    assert one.page.get_by_role("table", name="Partitions").count() == 1
    checked(one)
    one.picture(f"normal-{scheme}")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_bucket_that_is_away_is_said_first_and_aloud(busy, look, scheme):
    """Work that runs, work that waits, the error; and the end is announced, too."""
    one = look(busy, scheme=scheme).go()
    one.wait_text("#headline", "Everything")
    busy.bucket_down()
    busy.write("orders", 0, 60)
    one.wait_text("#headline", "The bucket has not answered for")
    one.wait_text("#announce", "The bucket does not answer.")
    assert "Producing and reading what is on this disk go on" in one.page.locator("#detail").inner_text()
    one.wait_text("#figure-lag .value", "KiB")
    checked(one)
    one.picture(f"bucket-down-{scheme}")
    busy.bucket_up()
    one.wait_text("#announce", "The tier is well.")
    one.wait_text("#headline", "Everything that is due is in the bucket")
    assert one.complaints == []


def test_a_partition_that_needs_an_operator_is_found(busy, look):
    """Said at the top and at its topic, and shown alone on demand; a topic that is not copied any more is no problem."""
    reason = busy.broken("orders", 2)
    busy.configure("payments", "remote.log.copy.disable", "true", "local.retention.bytes", "-2")
    one = look(busy).go()
    one.wait_text("#headline", "1 partition needs attention")
    one.wait_text("#table", f"partition 2: {reason}")
    one.wait_text("#table", "copying to the bucket is switched off")
    one.picture("problem")
    one.page.get_by_label("Show", exact=True).select_option("problems")
    one.wait_text("#count", "1 topic of 4")
    checked(one)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_narrow_screen_shows_the_same(busy, look, scheme):
    """No text is cut off and none scrolls sideways, also with the text at double size."""
    one = look(busy, width=360, scheme=scheme).go()
    one.wait_text("#headline", "Everything")
    checked(one)
    for size in ("100%", "200%"):
        one.page.evaluate("size => { document.documentElement.style.fontSize = size }", size)
        assert one.page.evaluate(TOO_WIDE) == [], size
        if size == "100%":
            one.picture(f"narrow-{scheme}")


def test_work_under_way_is_named(busy, look):
    """While it is: offsets, bytes and for how long; read again from the bucket, chunks are counted as hits."""
    busy.read("payments", 0)
    one = look(busy).go()
    busy.slow_uploads(4)
    busy.write("orders", 2, 60)
    one.wait_text("#uploads-list", "orders-2: offsets 3")
    one.wait_text("#headline", "on the way to the bucket")
    assert "%" in one.page.locator("#figure-cache .value").inner_text()
    checked(one)
    one.picture("uploading")
    busy.bucket_up()
    one.wait_text("#headline", "Everything that is due is in the bucket")
    assert not one.page.locator("#uploads").is_visible()


def test_it_is_used_with_the_keyboard_alone(busy, look):
    """In order: skip link, pause, filter, show, sort, the topics; a topic folds with the space bar."""
    one = look(busy).go()
    seen = []
    for _ in range(7):
        one.page.keyboard.press("Tab")
        seen.append(
            one.page.evaluate("document.activeElement.textContent.trim().split(' ')[0] || document.activeElement.id")
        )
    assert [seen[0], seen[1], seen[2]] == ["Skip", "Pause", "filter"]
    assert seen[5:] == ["orders", "payments"], "clicks.eu-west.raw has one partition: nothing to fold"
    fold = one.page.get_by_role("button", name=re.compile("^payments"))
    assert fold.get_attribute("aria-expanded") == "true"
    one.page.keyboard.press("Space")
    one.page.wait_for_function("() => document.activeElement.getAttribute('aria-expanded') === 'false'")
    assert "payments, partition 0" not in one.rows()
    one.page.keyboard.press("Enter")
    one.page.wait_for_function("() => document.activeElement.getAttribute('aria-expanded') === 'true'")
    assert "payments, partition 0" in one.rows()


def test_changes_arrive_by_themselves_and_can_be_paused(busy, look):
    """Without a reload; a paused page stays as it is and catches up afterwards."""
    one = look(busy).go()
    end = busy.partition("clicks.eu-west.raw").log.log_end_offset
    busy.write("clicks.eu-west.raw", 0, 10)
    one.wait_text("#table", f"0 to {end + 10}")
    one.page.get_by_role("button", name="Pause").click()
    busy.write("clicks.eu-west.raw", 0, 10)
    one.page.wait_for_timeout(1200)
    assert f"0 to {end + 10}" in one.page.locator("#table").inner_text()
    one.page.get_by_role("button", name="Pause").click()
    one.wait_text("#table", f"0 to {end + 20}")


def test_topics_are_found_sorted_and_chosen(busy, look):
    """By a part of their name, by size, and those that are not tiered on demand."""
    one = look(busy).go()
    one.page.get_by_label("Topics").fill("PAY")
    one.wait_text("#count", "1 topic of 4")
    one.page.get_by_label("Topics").fill("")
    one.page.get_by_label("Sort by").select_option("size")
    one.page.wait_for_function("() => document.querySelector('tbody .title').textContent === 'orders'")
    one.page.get_by_label("Show", exact=True).select_option("all")
    one.wait_text("#count", "4 topics of 4")
    one.page.get_by_label("Show", exact=True).select_option("problems")
    one.wait_text("#empty-text", "No partition has a problem.")


def test_a_broker_that_goes_away_is_noticed_and_found_again(site, look):
    """Known figures stay, marked as old."""
    one = look(site).go()
    site.broker.stop()
    one.page.wait_for_selector('#link[data-state="lost"]')
    one.wait_text("#announce", "The broker does not answer.")
    site.broker.start()
    assert one.page.locator("h1").inner_text() == "No topic is tiered yet"


def test_a_thousand_partitions_are_grouped_and_shown_in_parts(site, look):
    """Topics stay folded; the rows in the document are bounded."""
    site.broker.create_topic("wide", 1000)
    for number in range(3):
        site.broker.create_topic(f"small-{number}", 2)
    one = look(site).go()
    one.page.get_by_role("button", name="Show the topics").click()
    one.wait_text("#count", "4 topics of 4")
    assert len(one.rows()) == 4
    one.page.get_by_role("button", name=re.compile("^wide")).click()
    one.page.get_by_role("button", name=re.compile("900 left")).click()
    one.page.get_by_role("button", name=re.compile("800 left")).wait_for()
    assert one.page.locator("tr.part").count() == 200
    checked(one)


def test_the_page_does_not_move_with_reduced_motion(busy, look):
    """And colours are not all there is: each kind of span has its own pattern or edge."""
    one = look(busy, motion="reduce").go()
    duration = "getComputedStyle(document.querySelector('.bar span')).transitionDuration"
    assert float(one.page.evaluate(duration).rstrip("s")) == 0
    styles = "[...document.querySelectorAll('.swatch')].map(e => getComputedStyle(e).backgroundImage + getComputedStyle(e).boxShadow)"
    assert len(set(one.page.evaluate(styles))) == 5
    plain = look(busy, forced_colors="active").go()
    plain.picture("forced-colors")
    checked(plain)


CLUSTER = {
    "cluster_id": "c",
    "node": 1,
    "controller": 2,
    "controller_epoch": 7,
    "nodes": [
        {"node": 1, "roles": ["broker", "controller"], "state": "active", "address": "a:9092", "rack": "east"},
        {"node": 2, "roles": ["broker", "controller"], "state": "active", "address": "b:9092", "rack": None},
        {"node": 3, "roles": ["broker"], "state": "fenced", "address": "c:9092", "rack": None},
        {"node": 4, "roles": ["controller"], "state": "", "address": "", "rack": None},
    ],
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_nodes_of_a_cluster_are_said(busy, look, scheme):
    """Which of them leads the metadata, which one is away, and which one this page is of. A broker by itself has none."""
    one = look(busy, scheme=scheme).go()
    assert not one.page.locator("#cluster").is_visible()
    busy.in_cluster(CLUSTER)
    one.wait_text("#cluster-note", "Node 2 is the active controller; node 3 is fenced: away, or starting.")
    assert "The partitions below are those of node 1." in one.page.locator("#cluster-note").inner_text()
    said = one.page.locator("#nodes li").all_inner_texts()
    assert [text.split("\n") for text in said] == [
        ["1 broker, controller", "a:9092 · rack east · this page"],
        ["2 broker, active controller", "b:9092"],
        ["3 fenced broker", "c:9092"],
        ["4 controller"],
    ]
    checked(one)
    one.picture(f"cluster-{scheme}")
    busy.in_cluster({**CLUSTER, "controller": None, "nodes": CLUSTER["nodes"][:2]})
    one.wait_text("#cluster-note", "No controller is active: topics and settings cannot be changed.")
