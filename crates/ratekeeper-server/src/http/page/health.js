// How the server is: its doors, its stores, and what it was told to do.

import { byId, el, facts, setAttribute, setText, Table } from "./dom.js";
import { bytes, count, micros, moment, rate, seconds } from "./format.js";

const DOORS = [
  { label: "Door", text: ([name]) => name },
  { label: "Address", text: ([, door]) => door.address ?? "–" },
  { label: "Requests", number: true, text: ([, door]) => count(door.requests) },
  { label: "Per second", number: true, text: ([, door]) => rate(door.rate) },
  { label: "Allowed", number: true, text: ([, door]) => count(door.allowed) },
  { label: "Denied", number: true, text: ([, door]) => count(door.denied) },
  { label: "Ignored", number: true, text: ([, door]) => count(door.ignored) },
  { label: "Malformed", number: true, text: ([, door]) => count(door.malformed) },
  { label: "Connections", number: true, text: ([, door]) => count(door.connections) },
  { label: "Refused", number: true, text: ([, door]) => count(door.refused) },
  { label: "Dropped", number: true, text: ([, door]) => count(door.dropped) },
  { label: "p50", number: true, text: ([, door]) => micros(door.latency?.p50_us) },
  { label: "p99", number: true, text: ([, door]) => micros(door.latency?.p99_us) },
];

const STORES = [
  { label: "Store", text: ([name]) => name },
  { label: "Keys", number: true, text: ([, store]) => count(store.keys) },
  { label: "Memory", fill: (cell, [name, store]) => fillMeter(cell, name, store) },
  { label: "Evicted", number: true, text: ([, store]) => count(store.evicted) },
  { label: "Tokens forgiven", number: true, text: ([, store]) => count(store.tokens_forgiven) },
  { label: "Turned away", number: true, text: ([, store]) => count(store.turned_away) },
];

const MEMORY = [
  { label: "Limit", text: ({ holder }) => holder.limit },
  { label: "Store", text: ({ store }) => store },
  { label: "Keys of its share", fill: (cell, { holder }) => fillShare(cell, holder) },
  { label: "Evicted", number: true, text: ({ holder }) => count(holder.evicted) },
  { label: "Turned away", number: true, text: ({ holder }) => count(holder.turned_away) },
  { label: "Share full", number: true, text: ({ holder }) => count(holder.share_full ?? 0) },
];
/** So many limits are shown with what they hold of memory; the server tells who is short of it first. */
const HOLDERS_MAX = 20;

/** Beyond this part of its memory a store soon has to forget. */
const NEARLY_FULL = 0.9;

export class Health {
  #before = null;

  constructor() {
    this.doors = new Table(byId("doors"), "Doors", DOORS);
    this.stores = new Table(byId("stores"), "Stores", STORES);
    this.memory = new Table(byId("memory"), "Memory by limit", MEMORY);
  }

  show(stats) {
    const doors = Object.entries(stats.doors ?? {}).map(([name, door]) => {
      return [name, { ...door, rate: this.#rate(name, door, stats.at) }];
    });
    this.doors.show(doors, ([name]) => name, (row, [name]) => (row.dataset.door = name));
    const stores = Object.entries(stats.stores ?? {});
    this.stores.show(stores, ([name]) => name, (row, [name]) => (row.dataset.store = name));
    this.#showMemory(stores);
    const pressure = byId("pressure");
    pressure.hidden = !stats.pressure;
    setText(pressure, stats.pressure ? warning(stats.pressure) : "");
    setText(byId("health-note"), standing(stats));
    this.#before = stats;
    showConfigured(stats);
  }

  /** Forgets what rates are counted from, because the feed broke off. */
  breakOff() {
    this.#before = null;
  }

  #showMemory(stores) {
    const all = stores.flatMap(([store, { by_limit: holders = [] }]) => {
      return holders.map((holder) => ({ store, holder }));
    });
    all.sort((a, b) => order(b.holder) - order(a.holder));
    const shown = all.slice(0, HOLDERS_MAX);
    this.memory.say(all.length > shown.length ? `${shown.length} of ${count(all.length)}` : "");
    this.memory.show(shown, ({ store, holder }) => `${store} ${holder.limit}`, (row, { store, holder }) => {
      row.dataset.store = store;
      row.dataset.limit = holder.limit;
    });
  }

  #rate(name, door, at) {
    const before = this.#before?.doors?.[name];
    const secs = at - (this.#before?.at ?? at);
    if (!before || secs <= 0 || door.requests < before.requests) return NaN;
    return (door.requests - before.requests) / secs;
  }
}

/** Who is short of memory first, then who holds most. */
function order({ under_pressure: isShort, keys = 0 }) {
  return keys + (isShort ? Number.MAX_SAFE_INTEGER / 2 : 0);
}

/** The server's sentence, as one begins. */
function warning(sentence) {
  return `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}.`;
}

/** How it goes with the store that is shared with other servers. */
function sharing({ address, up, why, down_secs, local, let_through, turned_away }) {
  const instead = [
    [local, "decided here"],
    [let_through, "let through"],
    [turned_away, "turned away"],
  ].filter(([asks]) => asks > 0);
  const done = instead.map(([asks, what]) => `${count(asks)} ${what}`).join(", ");
  const tail = done ? ` While it was away: ${done}.` : "";
  if (up) return `Buckets are shared at ${address}.${tail}`;
  return `The store at ${address} has been away for ${seconds(down_secs)}: ${why}.${tail}`;
}

function standing({ ready, reloads, saves, shared }) {
  const words = [ready === false ? "Not ready: it does not take new work." : "Ready."];
  if (shared) words.push(sharing(shared));
  words.push(tally("Reloads", reloads), tally("Saves", saves));
  return words.join(" ");
}

function tally(what, { done = 0, failed = 0 } = {}) {
  return `${what}: ${count(done)} done, ${count(failed)} failed${failed > 0 ? " (the log says why)" : ""}.`;
}

function fillMeter(cell, name, { bytes: used, bytes_max: max }) {
  if (!cell.firstChild) {
    const bar = el("div", { class: "meter", role: "meter", "aria-label": `Memory of the store ${name}` });
    bar.append(el("div", { class: "fill" }));
    cell.append(bar, el("span", { class: "hint" }));
  }
  const [meter, words] = cell.children;
  const part = max > 0 ? Math.min(1, used / max) : 0;
  setAttribute(meter, "aria-valuemin", 0);
  setAttribute(meter, "aria-valuemax", max ?? 0);
  setAttribute(meter, "aria-valuenow", used ?? 0);
  setAttribute(meter, "data-full", part > NEARLY_FULL);
  meter.firstChild.style.width = `${100 * part}%`;
  const text = `${bytes(used)} of ${bytes(max)}`;
  setAttribute(meter, "aria-valuetext", text);
  setText(words, `${text} (${Math.round(100 * part)} %)`);
}

function fillShare(cell, { limit, keys = 0, share = 0, under_pressure: isShort }) {
  if (!cell.firstChild) {
    const bar = el("div", { class: "meter", role: "meter", "aria-label": `Keys of ${limit}` });
    bar.append(el("div", { class: "fill" }));
    cell.append(bar, el("span", { class: "hint" }));
  }
  const [meter, words] = cell.children;
  const part = share > 0 ? Math.min(1, keys / share) : 0;
  setAttribute(meter, "aria-valuemin", 0);
  setAttribute(meter, "aria-valuemax", Math.max(share, keys));
  setAttribute(meter, "aria-valuenow", keys);
  setAttribute(meter, "data-full", Boolean(isShort));
  meter.firstChild.style.width = `${100 * part}%`;
  const text = `${count(keys)} of ${count(share)}${isShort ? ", short of memory" : ""}`;
  setAttribute(meter, "aria-valuetext", text);
  setText(words, text);
}

function showConfigured({ configured = {}, version, uptime_secs: uptime }) {
  const { since, limits, overrides_in_files: inFiles, overrides_at_run_time: atRunTime } = configured;
  facts(byId("configured-facts"), [
    ["In force since", `${moment(since)}, version ${configured.version ?? "–"}`],
    ["Limits", count(limits)],
    ["Overrides", `${count(inFiles)} in files, ${count(atRunTime)} at run time`],
    ["Read from", (configured.files ?? []).join(", ") || "–"],
    ["State", configured.state ?? "none: what was spent is forgotten when the server stops"],
    ["Overrides at run time", configured.durable ? "last over a restart" : "last until the server stops"],
    ["Server", `Ratekeeper ${version ?? ""}, up for ${seconds(Math.floor(uptime ?? 0))}`],
  ]);
  setText(byId("foot"), `Ratekeeper ${version ?? ""}`);
}
