// Listens to the broker's events and keeps the page up to date. Everything it says comes from words.js.

import { announcement, bytes, clusterNote, duration, figures, nodeWords, number, plural, said } from "./words.js";
import { Rows } from "./rows.js";

const RETRY_MS = 2000;
const byId = (id) => document.getElementById(id);
const rows = new Rows(byId("table"));
const state = { summary: null, receivedAt: 0, paused: false, link: "connecting", told: "", wanted: false, source: null };

rows.onToggle = schedule;

function now() {
  return state.summary.now_ms + (performance.now() - state.receivedAt);
}

// -- events ------------------------------------------------------------------------------------------------------

function connect() {
  const source = (state.source = new EventSource("/v1/tier/events"));
  source.addEventListener("begin", () => {
    rows.clear();
    link("live");
  });
  source.addEventListener("summary", (event) => {
    state.summary = JSON.parse(event.data);
    state.receivedAt = performance.now();
    schedule();
  });
  source.addEventListener("rows", (event) => {
    const { rows: changed, gone } = JSON.parse(event.data);
    rows.take(changed, gone);
    schedule();
  });
  source.addEventListener("error", () => {
    source.close();
    if (state.source !== source || state.paused) return;
    link("lost");
    setTimeout(() => !state.paused && state.source === source && connect(), RETRY_MS);
  });
}

function link(to) {
  if (state.link === "lost" && to === "live") announce("Connected again.");
  if (state.link !== "lost" && to === "lost") announce("The broker does not answer. The page shows the last figures it got.");
  state.link = to;
  const element = byId("link");
  element.dataset.state = to;
  element.textContent = { connecting: "connecting", live: "live", lost: "not connected", paused: "paused" }[to];
  document.body.classList.toggle("stale", to === "lost");
}

function announce(words) {
  byId("announce").textContent = words;
}

// -- what is shown -----------------------------------------------------------------------------------------------

function schedule() {
  if (state.wanted) return;
  state.wanted = true;
  requestAnimationFrame(() => {
    state.wanted = false;
    if (state.summary) show();
  });
}

function show() {
  const { summary } = state;
  summary.now_ms += performance.now() - state.receivedAt;
  state.receivedAt = performance.now();
  set("bucket", summary.bucket.url);
  const words = said(summary);
  byId("said").dataset.level = words.level;
  set("headline", words.headline);
  set("detail", words.detail);
  set("error", words.error ?? "");
  byId("error").hidden = !words.error;
  document.title = `${words.level === "alarm" ? "⚠ " : ""}Tier · stratalog`;
  const spoken = announcement(summary);
  if (state.told && state.told !== spoken) announce(spoken);
  state.told = spoken;
  for (const [name, value, note, alarming, label] of figures(summary)) {
    const figure = byId(`figure-${name}`);
    if (label) put(figure.querySelector("dt"), label);
    put(figure.querySelector(".value"), value);
    put(figure.querySelector(".note"), note);
    figure.classList.toggle("alarming", alarming);
  }
  showNodes(summary);
  showUploads(summary);
  rows.render(now());
  showEmpty(summary);
}

function showNodes({ cluster }) {
  byId("cluster").hidden = !cluster;
  if (!cluster) return;
  set("cluster-note", clusterNote(cluster));
  const list = byId("nodes");
  while (list.children.length > cluster.nodes.length) list.lastChild.remove();
  cluster.nodes.forEach((node, index) => {
    const [title, note, alarming] = nodeWords(node, cluster);
    const line = list.children[index] ?? list.appendChild(nodeLine());
    put(line.firstChild, title);
    put(line.lastChild, note);
    line.classList.toggle("alarming", alarming);
  });
}

function nodeLine() {
  const line = document.createElement("li");
  for (const name of ["title", "note"]) {
    const words = line.appendChild(document.createElement("span"));
    words.className = name;
  }
  return line;
}

function showUploads({ uploads }) {
  byId("uploads").hidden = uploads.running.length === 0;
  const lines = uploads.running.map(
    (one) => `${one.topic}-${one.partition}: offsets ${number(one.base)} to ${number(one.end)}, ${bytes(one.size_bytes)}, for ${duration(now() - one.since_ms)}`,
  );
  const list = byId("uploads-list");
  while (list.children.length > lines.length) list.lastChild.remove();
  lines.forEach((line, index) => put(list.children[index] ?? list.appendChild(document.createElement("li")), line));
}

function showEmpty(summary) {
  const { filter, show: shown } = rows.view;
  const nothing = rows.order.length === 0;
  byId("table").hidden = nothing;
  byId("empty").hidden = !nothing;
  const none = !summary.tiered_partitions && shown === "tiered" && !filter;
  byId("legend").hidden = nothing;
  byId("figures-section").hidden = !summary.tiered_partitions && summary.bucket.state === "unused";
  byId("empty-code").hidden = !none;
  byId("show-all").hidden = !none || rows.topics.size === 0;
  if (nothing) {
    put(byId("empty-code").firstChild, "stratalog tier set TOPIC --enable");
    set("empty-text", none ? "To keep the history of a topic in the bucket:" : emptyText(shown, filter));
  }
  const left = rows.matching - rows.order.length;
  byId("more").hidden = left <= 0;
  set("more", `Show more topics (${number(left)} left)`);
  set("count", nothing ? "" : `${plural(rows.matching, "topic")} of ${number(rows.topics.size)} on this broker.`);
}

function emptyText(shown, filter) {
  if (filter) return `No topic that is shown has “${filter}” in its name.`;
  return shown === "problems" ? "No partition has a problem." : "There are no topics on this broker.";
}

function set(id, words) {
  put(byId(id), words);
}

function put(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

// -- what a person does ------------------------------------------------------------------------------------------

function look() {
  rows.look({ filter: byId("filter").value, show: byId("show").value, sort: byId("sort").value });
  schedule();
}

for (const name of ["filter", "show", "sort"]) byId(name).addEventListener("input", look);
byId("tools").addEventListener("submit", (event) => event.preventDefault());
byId("more").addEventListener("click", () => {
  rows.more();
  schedule();
});
byId("show-all").addEventListener("click", () => {
  byId("show").value = "all";
  look();
  byId("show").focus();
});
byId("pause").addEventListener("click", () => {
  state.paused = !state.paused;
  byId("pause").setAttribute("aria-pressed", String(state.paused));
  if (state.paused) {
    state.source.close();
    link("paused");
  } else {
    link("connecting");
    connect();
  }
});

setInterval(() => state.summary && !state.paused && state.link !== "lost" && schedule(), 1000);
look();
link("connecting");
connect();
