// The live page. What tests and scripts may rely on:
//
//   #connection[data-state=live|waiting|denied], #connection-text, #reconnect
//   #token-box, #token-form (#token-input), #token-forget, #theme-toggle, html[data-theme]
//   #chart-all and #charts > figure, each with data-limit ("*" is all of them), data-allowed-rate,
//     data-denied-rate, data-shadow-rate (empty while unknown), data-points, data-gaps; #chart-filter
//   #ids-limit, #busiest and #most-denied tbody tr[data-limit][data-id] (th button looks it up,
//     unless the id was cut)
//   #lookup-form (limit, id, cost), #lookup-result[data-state=empty|allowed|denied|problem]
//   #overrides tbody tr[data-limit][data-id][data-source=run-time|file][data-in-force], button in it
//   #override-form (limit, id, burst, count, period, until, why, lower), #override-preview,
//     #override-apply, #override-result[data-state=empty|preview|problem|done]
//   #remove-dialog, #remove-form (why), #remove-confirm
//   [data-error-for=FIELD] in a form is where a problem with that field is told, "" for the form
//   #doors tbody tr[data-door], #stores tbody tr[data-store], #limits tbody tr[data-limit]
//   #memory tbody tr[data-store][data-limit], #pressure (hidden unless memory is short)
//   #configured-facts, #health-note

import { Charts } from "./charts.js";
import { byId, setAttribute, setText } from "./dom.js";
import { Feed } from "./feed.js";
import { Health } from "./health.js";
import { History } from "./history.js";
import { Ids } from "./ids.js";
import { LimitsList } from "./limits.js";
import { Lookup } from "./lookup.js";
import { OverrideForm } from "./override.js";
import { Overrides } from "./overrides.js";
import { onToken, setUpSignIn } from "./session.js";

const TICK_MS = 1000;
/** The charts move by themselves when nothing was told for this long. */
const SILENT_MS = 1500;
/** How long what could not be read is left alone. */
const READ_AGAIN_MS = 5000;
const ANNOUNCED = {
  live: "Live.",
  waiting: "Not connected to the server; trying again.",
  denied: "The server asks for a token: sign in at the top of the page.",
};

const history = new History();
const charts = new Charts(history);
const health = new Health();
const lookup = new Lookup((explained) => overrideForm.begin(explained));
const ids = new Ids((limit, id) => lookup.pick(limit, id));
const overrides = new Overrides();
const overrideForm = new OverrideForm(() => overrides.load());
const limits = new LimitsList((all) => {
  charts.know(all);
  lookup.know(all);
});
const feed = new Feed({ onStats, onState, onBreak });

let stats = null;
let heardMs = 0;
/** The version of the configuration that was read, whoever is reading it now, and when that failed. */
let version = null;
let reading = null;
let failedMs = -Infinity;
let connection = { state: "waiting", words: "connecting", retryMs: null };

function onStats(told) {
  stats = told;
  heardMs = performance.now();
  history.take(told);
  // A mistake in drawing must not look like a broken stream.
  queueMicrotask(show);
}

function onBreak() {
  history.breakOff();
  health.breakOff();
}

function onState(state, words, retryMs) {
  if (state !== connection.state) setText(byId("announce"), ANNOUNCED[state]);
  connection = { state, words, retryMs };
  showConnection();
}

function show() {
  if (document.hidden || !stats) return;
  const silentMs = performance.now() - heardMs;
  charts.draw(stats.at + (silentMs > SILENT_MS ? silentMs / 1000 : 0));
  if (silentMs > SILENT_MS) return;
  ids.show(stats);
  health.show(stats);
  readAgainIfChanged();
}

/** What is configured is read when the feed says that it changed, and again if that failed. */
async function readAgainIfChanged() {
  const now = `${stats.configured?.version} ${stats.configured?.since}`;
  const isEarly = performance.now() - failedMs < READ_AGAIN_MS;
  if (now === version || reading || isEarly) return;
  const mine = {};
  reading = mine;
  let read = [false];
  try {
    read = await Promise.all([limits.load(), overrides.load()]);
  } finally {
    if (reading === mine) {
      reading = null;
      if (read.every(Boolean)) version = now;
      else failedMs = performance.now();
    }
  }
}

/** Somebody else is asking: what was read, or could not be, says nothing about them. */
function forgetWhatWasRead() {
  version = null;
  reading = null;
  failedMs = -Infinity;
}

function showConnection() {
  const { state, words, retryMs } = connection;
  const secs = retryMs === null ? 0 : Math.ceil((retryMs - performance.now()) / 1000);
  setAttribute(byId("connection"), "data-state", state);
  setAttribute(document.documentElement, "data-connection", state);
  setText(byId("connection-text"), secs > 0 ? `reconnecting in ${secs} s` : words);
  setAttribute(byId("connection"), "title", words);
  byId("reconnect").hidden = state === "live" || (state === "waiting" && retryMs === null);
}

function tick() {
  if (document.hidden) return;
  showConnection();
  if (performance.now() - heardMs > SILENT_MS) show();
}

setUpSignIn();
onToken(() => {
  forgetWhatWasRead();
  feed.restart();
});
byId("reconnect").addEventListener("click", () => feed.restart());
document.addEventListener("visibilitychange", show);
setInterval(tick, TICK_MS);
feed.restart();
