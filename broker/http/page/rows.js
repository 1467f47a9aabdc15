// The table: one group of rows per topic, one bar per partition. Only what is shown and has changed is touched.

import { SPANS, barText, bytes, duration, number, plural, remarkOf } from "./words.js";

const TOPICS_A_PAGE = 100;
const PARTITIONS_A_PAGE = 100;
const OPEN_BELOW = 60;

export class Rows {
  constructor(table) {
    this.table = table;
    this.topics = new Map();
    this.view = { filter: "", show: "tiered", sort: "name", topics: TOPICS_A_PAGE };
    this.order = [];
    this.matching = 0;
    this.partitions = 0;
    this.reorder = true;
  }

  clear() {
    for (const topic of this.topics.values()) topic.body?.remove();
    this.topics.clear();
    this.partitions = 0;
    this.reorder = true;
  }

  take(rows, gone) {
    for (const row of rows) {
      const topic = this.topic(row.topic);
      const known = topic.rows.get(row.partition);
      if (!known) this.partitions += 1;
      // Where a topic begins or ends to belong here, the list is made anew; otherwise it stays in its order.
      if (!known || known.tiered !== row.tiered || !known.problem !== !row.problem) this.reorder = true;
      topic.rows.set(row.partition, row);
      topic.dirty = true;
    }
    for (const [name, partition] of gone) {
      const topic = this.topics.get(name);
      if (!topic?.rows.delete(partition)) continue;
      this.partitions -= 1;
      topic.dirty = this.reorder = true;
      if (topic.rows.size === 0) {
        topic.body?.remove();
        this.topics.delete(name);
      }
    }
  }

  topic(name) {
    let topic = this.topics.get(name);
    if (!topic) {
      topic = { name, rows: new Map(), open: null, limit: PARTITIONS_A_PAGE, dirty: true, body: null, lines: new Map() };
      this.topics.set(name, topic);
      this.reorder = true;
    }
    return topic;
  }

  look(changes) {
    Object.assign(this.view, { topics: TOPICS_A_PAGE }, changes);
    this.reorder = true;
  }

  more() {
    this.view.topics += TOPICS_A_PAGE;
    this.reorder = true;
  }

  /** Bring the table up to date; `now` is the broker's time. */
  render(now) {
    if (this.reorder) this.arrange();
    for (const topic of this.order) {
      if (topic.dirty || !topic.body) this.build(topic);
      for (const line of topic.lines.values()) if (!line.element.hidden) line.age(now);
    }
  }

  arrange() {
    this.reorder = false;
    const { filter, show, sort, topics } = this.view;
    const wanted = filter.trim().toLowerCase();
    const found = [];
    for (const topic of this.topics.values()) {
      if (wanted && !topic.name.toLowerCase().includes(wanted)) continue;
      const rows = [...topic.rows.values()];
      if (show === "tiered" && !rows.some((row) => row.tiered || row.problem)) continue;
      if (show === "problems" && !rows.some((row) => row.problem)) continue;
      found.push([sortKey(sum(topic), sort), topic]);
    }
    found.sort(([one, a], [other, b]) => one - other || (a.name < b.name ? -1 : 1));
    this.matching = found.length;
    const order = found.slice(0, topics).map(([, topic]) => topic);
    const shown = new Set(order);
    for (const topic of this.order) if (!shown.has(topic)) topic.body?.remove();
    this.order = order;
    let before = this.table.tHead;
    for (const topic of order) {
      if (!topic.body || topic.dirty) this.build(topic);
      if (before.nextElementSibling !== topic.body) before.after(topic.body);
      before = topic.body;
    }
  }

  build(topic) {
    topic.dirty = false;
    if (!topic.body) {
      topic.body = document.createElement("tbody");
      topic.body.setAttribute("role", "rowgroup");
      topic.head = new Line(topic.body, "topic");
      topic.lines.set(-1, topic.head);
    }
    const rows = [...topic.rows.values()].sort((one, other) => one.partition - other.partition);
    const single = rows.length === 1;
    const open = !single && (topic.open ?? this.partitions <= OPEN_BELOW);
    const all = sum(topic);
    if (single) topic.head.show(rows[0], topic.name, `partition ${rows[0].partition}`);
    else {
      const toggle = () => {
        topic.open = !open;
        topic.dirty = true;
        this.onToggle();
      };
      topic.head.show(all, topic.name, plural(rows.length, "partition"), { open, toggle });
    }
    const shown = open ? rows.slice(0, topic.limit) : [];
    const keep = new Set([-1, ...shown.map((row) => row.partition)]);
    for (const [partition, line] of topic.lines) {
      if (keep.has(partition)) continue;
      line.element.remove();
      topic.lines.delete(partition);
    }
    let before = topic.head.element;
    for (const row of shown) {
      let line = topic.lines.get(row.partition);
      if (!line) topic.lines.set(row.partition, (line = new Line(topic.body, "part")));
      // What holds for the whole topic is said once.
      const said = row.state_text === all.state_text ? { ...row, state_text: "archiving" } : row;
      line.show(said, `partition ${row.partition}`, "", null, `${row.topic}, `);
      if (before.nextElementSibling !== line.element) before.after(line.element);
      before = line.element;
    }
    this.buildMore(topic, open ? rows.length - shown.length : 0);
  }

  buildMore(topic, left) {
    topic.moreRow?.remove();
    topic.moreRow = null;
    if (left <= 0) return;
    const element = document.createElement("tr");
    element.setAttribute("role", "row");
    const cell = element.insertCell();
    cell.colSpan = 7;
    cell.setAttribute("role", "cell");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `Show ${plural(Math.min(left, PARTITIONS_A_PAGE), "more partition")} of ${topic.name} (${number(left)} left)`;
    button.addEventListener("click", () => {
      topic.limit += PARTITIONS_A_PAGE;
      topic.dirty = true;
      this.onToggle();
    });
    cell.append(button);
    topic.body.append(element);
    topic.moreRow = element;
  }

  onToggle() {}
}

/** A topic as one row: everything added up, the oldest age, the first problem. */
function sum(topic) {
  const all = { spans: {}, local_bytes: 0, remote_bytes: 0, lag: { bytes: 0, offsets: 0 }, at_risk: null, problem: null, tiered: false, state_text: null, offsets: 0 };
  for (const [name] of SPANS) all.spans[name] = 0;
  for (const row of topic.rows.values()) {
    for (const [name] of SPANS) all.spans[name] += row.spans[name];
    all.local_bytes += row.local_bytes;
    all.remote_bytes += row.remote_bytes;
    all.lag.bytes += row.lag.bytes;
    all.lag.offsets += row.lag.offsets;
    all.offsets += row.log_end - row.log_start;
    all.tiered ||= row.tiered;
    all.state_text = (all.state_text ?? row.state_text) === row.state_text ? row.state_text : "archiving";
    if (row.problem) all.problem ??= `partition ${row.partition}: ${row.problem}`;
    if (row.at_risk?.since_ms != null && !(all.at_risk?.since_ms <= row.at_risk.since_ms)) all.at_risk = row.at_risk;
  }
  return all;
}

function sortKey(all, sort) {
  if (sort === "lag") return -all.lag.bytes;
  if (sort === "risk") return all.at_risk?.since_ms ?? Infinity;
  if (sort === "size") return -(all.local_bytes + all.remote_bytes);
  return 0;
}

/** One row of the table and its cells. */
class Line {
  constructor(body, kind) {
    this.element = make("tr", kind, body, "row");
    this.name = make("th", "name", this.element, "rowheader");
    this.name.scope = "row";
    this.unseen = make("span", "unseen", this.name);
    const bars = make("td", "wide", this.element, "cell");
    this.bar = make("div", "bar", bars);
    this.bar.setAttribute("role", "img");
    this.parts = SPANS.map(([name]) => make("span", name, this.bar));
    this.remark = make("p", "remark", bars);
    this.offsets = this.cell("offsets", "Offsets");
    this.local = this.cell("number", "On disk");
    this.remote = this.cell("number", "In bucket");
    this.lag = this.cell("number", "Upload lag");
    this.risk = this.cell("number", "At risk for");
  }

  cell(kind, label) {
    const cell = make("td", kind, this.element, "cell");
    cell.dataset.label = label;
    return cell;
  }

  show(row, title, note, fold = null, before = "") {
    text(this.unseen, before);
    this.label(title, note, fold);
    SPANS.forEach(([name], index) => {
      this.parts[index].style.flexGrow = row.spans[name];
      this.parts[index].hidden = !row.spans[name];
    });
    const words = barText(row.spans);
    this.bar.classList.toggle("none", words === "empty");
    if (this.bar.getAttribute("aria-label") !== words) this.bar.setAttribute("aria-label", words);
    this.bar.title = words;
    const remark = remarkOf(row);
    text(this.remark, remark);
    this.remark.hidden = !remark;
    this.element.classList.toggle("problem", Boolean(row.problem));
    text(this.offsets, row.log_end === undefined ? number(row.offsets) : `${number(row.log_start)} to ${number(row.log_end)}`);
    text(this.local, bytes(row.local_bytes));
    text(this.remote, row.tiered ? bytes(row.remote_bytes) : "–");
    text(this.lag, row.lag.offsets ? bytes(row.lag.bytes) : "–");
    this.since = row.at_risk ? row.at_risk.since_ms : undefined;
  }

  label(title, note, fold) {
    if (fold && !this.button) {
      this.plain?.remove();
      this.plain = null;
      this.button = make("button", "fold", this.name);
      this.button.type = "button";
      this.title = make("span", "title", this.button);
      this.button.append(" ");
      this.note = make("span", "note", this.button);
    } else if (!fold && !this.plain) {
      this.button?.remove();
      this.button = null;
      this.plain = make("span", "plain", this.name);
      this.title = make("span", "title", this.plain);
      this.plain.append(" ");
      this.note = make("span", "note", this.plain);
    }
    text(this.title, title);
    text(this.note, note);
    if (!fold) return;
    this.button.setAttribute("aria-expanded", String(fold.open));
    this.button.onclick = fold.toggle;
  }

  /** Ages grow by themselves. */
  age(now) {
    text(this.risk, this.since === undefined ? "–" : this.since === null ? "unknown" : duration(now - this.since));
  }
}

function make(tag, kind, parent, role) {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  if (role) element.setAttribute("role", role);
  parent.append(element);
  return element;
}

function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}
