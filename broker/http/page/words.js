// Numbers into words: pure functions, no document, no clock. Times are milliseconds since 1970.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** 1536 -> "1.5 KiB" */
export function bytes(count) {
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** 1234567 -> "1,234,567" */
export function number(count) {
  return count.toLocaleString("en");
}

/** How long, in the one or two largest units: 95000 -> "1 min 35 s" */
export function duration(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return minutes < 10 ? join(minutes, "min", seconds % 60, "s") : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return join(hours, "h", minutes % 60, "min");
  return join(Math.floor(hours / 24), "days", hours % 24, "h");
}

function join(large, largeUnit, small, smallUnit) {
  return small ? `${large} ${largeUnit} ${small} ${smallUnit}` : `${large} ${largeUnit}`;
}

/** A share for people: never 0 % or 100 % unless it is exactly that. */
export function percent(part, whole) {
  if (!whole) return "0 %";
  const exact = (100 * part) / whole;
  if (exact > 0 && exact < 1) return "< 1 %";
  if (exact > 99 && exact < 100) return "> 99 %";
  return `${Math.round(exact)} %`;
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

export const SPANS = [
  ["remote", "in the bucket only"],
  ["both", "in both"],
  ["waiting", "waiting for the bucket"],
  ["local", "on this disk only"],
  ["missing", "in neither"],
];

/** A bar in words, for those who do not see it. */
export function barText(spans) {
  const whole = SPANS.reduce((sum, [name]) => sum + spans[name], 0);
  if (!whole) return "empty";
  return SPANS.filter(([name]) => spans[name])
    .map(([name, text]) => `${percent(spans[name], whole)} ${text}`)
    .join(", ");
}

/** The sentence at the top: {level, headline, detail, error?}. Levels: calm, busy, alarm. */
export function said(summary) {
  const { now_ms: now, bucket, lag, problems } = summary;
  const waits = lag.bytes ? `${bytes(lag.bytes)} wait on this disk` : "nothing waits on this disk";
  if (summary.worker && summary.worker.problem) {
    return {
      level: "alarm",
      headline: "The process that talks to the bucket hangs",
      detail: `Producing and reading what is on this disk go on; ${waits}. The process is replaced by itself.`,
      error: summary.worker.problem,
    };
  }
  if (bucket.state === "failing") {
    return {
      level: "alarm",
      headline: `The bucket has not answered for ${duration(now - bucket.failing_since_ms)}`,
      detail: bucket.read_only
        ? "What was fetched before can be read; the rest is asked for again by itself."
        : `Producing and reading what is on this disk go on; ${waits}, and nothing is removed from it meanwhile.` +
          " Uploads are tried again by themselves.",
      error: bucket.last_error,
    };
  }
  if (problems) {
    return {
      level: "alarm",
      headline: `${plural(problems, "partition")} ${problems === 1 ? "needs" : "need"} attention`,
      detail: "Show those with a problem below: each says what it is.",
    };
  }
  if (bucket.read_only) {
    return {
      level: "calm",
      headline: "The bucket is mounted for reading",
      detail: `${plural(summary.tiered_topics, "topic")}, ${plural(summary.tiered_partitions, "partition")}: ` +
        `${bytes(summary.remote_bytes)} in the bucket. The mount never writes to it.`,
    };
  }
  if (!summary.tiered_partitions) {
    return {
      level: "calm",
      headline: "No topic is tiered yet",
      detail: `${plural(summary.partitions, "partition")} on this disk, none with an archive.`,
    };
  }
  const where = `${plural(summary.tiered_topics, "tiered topic")}, ${plural(summary.tiered_partitions, "partition")}: ` +
    `${bytes(summary.remote_bytes)} in the bucket, ${bytes(summary.local_bytes)} on this disk.`;
  if (lag.offsets) {
    const since = lag.since_ms === null ? "" : `, the oldest for ${duration(now - lag.since_ms)}`;
    return { level: "busy", headline: `${bytes(lag.bytes)} on the way to the bucket`, detail: `${where} ${plural(lag.offsets, "offset")} wait${since}.` };
  }
  return { level: "calm", headline: "Everything that is due is in the bucket", detail: where };
}

/** What is said aloud when it changes, and only then. */
export function announcement(summary) {
  if (summary.worker && summary.worker.problem) return "The process that talks to the bucket hangs.";
  if (summary.bucket.state === "failing") return "The bucket does not answer.";
  if (summary.problems) return `${plural(summary.problems, "partition")} with a problem.`;
  return "The tier is well.";
}

function failed(errors) {
  return [["copy", "uploading"], ["fetch", "reading"], ["delete", "deleting"]]
    .filter(([name]) => errors[name])
    .map(([name, verb]) => `${number(errors[name])} ${verb}`)
    .join(", ");
}

function verified({ verification: told, read_back_ms: readBack }, now) {
  if (told) {
    const what = `${told.deep ? "deep" : "shallow"}, ${told.topics.length ? plural(told.topics.length, "topic") : "all topics"}`;
    const found = told.anomalies ? plural(told.anomalies, "anomaly", "anomalies") : "clean";
    return ["verified", `${duration(now - told.told_ms)} ago`, `${found} (${what})`, told.anomalies > 0, "Last verification"];
  }
  const note = readBack === null ? "nothing yet since the broker started" : "objects compared with their manifest";
  return ["verified", readBack === null ? "–" : `${duration(now - readBack)} ago`, note, false, "Last read back"];
}

function trashNote(trash) {
  const jobs = trash.jobs ? `; ${plural(trash.jobs, "job")} listed` : "";
  if (!trash.items) return `nothing waits to be removed${jobs}`;
  const leased = trash.leased_items ? `, ${number(trash.leased_items)} held by leases` : "";
  return `${plural(trash.items, "object")} or pages wait to be removed${leased}${jobs}`.replace("object or pages wait", "object or page waits");
}

/** The figures: [id, value, note, alarming, label if it changes] each. */
export function figures(summary) {
  const { now_ms: now, lag, at_risk: risk, cache, errors, trash, uploads } = summary;
  const all = errors.copy + errors.fetch + errors.delete;
  const moving = uploads.running.reduce((sum, one) => sum + one.size_bytes, 0);
  return [
    ["lag", bytes(lag.bytes), lag.offsets ? `${plural(lag.offsets, "offset")}${lag.since_ms === null ? "" : `, the oldest for ${duration(now - lag.since_ms)}`}` : "nothing waits", false],
    ["risk", risk ? duration(now - risk.since_ms) : "none", risk ? `${risk.topic}-${risk.partition}, offset ${number(risk.offset)}: on this disk only` : "nothing is on this disk only", false],
    ["uploads", number(uploads.running.length), uploads.running.length ? bytes(moving) + (uploads.waiting ? `, ${number(uploads.waiting)} more wait` : "") : "none under way", false],
    ["cache", cache.hit_rate === null ? "–" : percent(cache.hits, cache.hits + cache.misses), cache.hit_rate === null ? "no reads from the bucket yet" : `${number(cache.misses)} of ${number(cache.hits + cache.misses)} fetched; ${bytes(cache.used_bytes)} of ${bytes(cache.limit_bytes)} used`, false],
    ["trash", bytes(trash.size_bytes), trashNote(trash), false],
    ["errors", number(all), all ? failed(errors) : "none", all > 0],
    verified(summary, now),
  ];
}

/** The line above the nodes: who leads the metadata, and what is wrong with the cluster. */
export function clusterNote(cluster) {
  const fenced = cluster.nodes.filter((one) => one.state === "fenced").map((one) => one.node);
  const leads = cluster.controller === null ? "No controller is active: topics and settings cannot be changed" : `Node ${cluster.controller} is the active controller`;
  const away = fenced.length ? `; ${fenced.length === 1 ? "node" : "nodes"} ${fenced.join(", ")} ${fenced.length === 1 ? "is" : "are"} fenced: away, or starting` : "";
  return `${leads}${away}. ${replicaNote(cluster.replicas)}The partitions below are those of node ${cluster.node}.`;
}

/** The partitions of the whole cluster that lack something, in a sentence; empty while they have not been counted. */
export function replicaNote(counts) {
  if (!counts) return "";
  const lacks = [
    [counts.without_leader, "without a leader"],
    [counts.under_replicated, "under-replicated"],
    [counts.reassigning, "being moved"],
  ].filter(([count]) => count);
  const all = plural(counts.partitions, "partition");
  return lacks.length ? `Of ${all} ${lacks.map(([count, what]) => `${number(count)} ${count === 1 ? "is" : "are"} ${what}`).join(", ")}. ` : `All replicas of ${all} are in sync. `;
}

/** The remark on a partition: its problem, its place among replicas, or its state. */
export function remarkOf(row) {
  if (row.problem) return row.problem;
  const state = row.tiered && row.state_text !== "archiving" ? row.state_text : "";
  if (row.state === "copy") return `copy; node ${row.leader} leads`;
  if (!(row.replicas?.length > 1)) return state;
  const missing = row.replicas.filter((one) => !row.in_sync.includes(one));
  const place = missing.length ? `leader; replicas on nodes ${row.replicas.join(", ")}, not in sync: ${missing.join(", ")}` : `leader; replicas on nodes ${row.replicas.join(", ")}, all in sync`;
  return state ? `${place}; ${state}` : place;
}

/** A node: title, note, whether it needs attention. */
export function nodeWords(node, cluster) {
  const office = node.node === cluster.controller ? ["active controller"] : node.roles.includes("controller") ? ["controller"] : [];
  const roles = [...(node.roles.includes("broker") ? [node.state === "active" ? "broker" : `${node.state} broker`] : []), ...office];
  const places = [node.address, node.rack && `rack ${node.rack}`, node.node === cluster.node && "this page"].filter(Boolean);
  return [`${node.node}  ${roles.join(", ")}`, places.join(" · "), node.state === "fenced"];
}
