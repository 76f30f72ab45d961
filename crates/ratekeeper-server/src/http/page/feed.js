// The stream of /v1/live. An EventSource cannot send a token, so it is read with fetch; being
// told nothing for a while counts as a stream that broke.

import { askForToken, headers, problemOf } from "./session.js";

const PATH = "/v1/live";
const STALL_MS = 5000;
const BACKOFF_MS_MIN = 500;
const BACKOFF_MS_MAX = 10_000;
/** How long a hidden tab keeps its stream: looking elsewhere for a moment costs no gap. */
const HIDDEN_MS_MAX = 30_000;
/** A bound on what is held of one event; tens of thousands of limits fit. */
const EVENT_CHARS_MAX = 1 << 24;

/** Cuts a stream of text into events, wherever it was cut on the way. */
export class EventParser {
  #rest = "";
  #name = "";
  #data = [];
  #held = 0;

  /** The events that `text` completes, as `{ name, data }`. Lines end with LF or CR LF. */
  push(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    if (this.#held + this.#rest.length > EVENT_CHARS_MAX) throw new Error("an event is too long");
    const events = [];
    for (const line of lines) this.#line(line.replace(/\r$/, ""), events);
    return events;
  }

  #line(line, events) {
    if (line === "") {
      if (this.#data.length > 0) events.push({ name: this.#name || "message", data: this.#data.join("\n") });
      this.#name = "";
      this.#data = [];
      this.#held = 0;
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#name = value;
    if (field === "data") {
      this.#data.push(value);
      this.#held += value.length;
    }
  }
}

/** Keeps a stream open for as long as the page is looked at. */
export class Feed {
  #onStats;
  #onState;
  #onBreak;
  #controller = null;
  #timers = {};
  #delay = BACKOFF_MS_MIN;

  /** `onState` is told `live`, `waiting` or `denied`, words for people, and when it tries again. */
  constructor({ onStats, onState, onBreak }) {
    this.#onStats = onStats;
    this.#onState = onState;
    this.#onBreak = onBreak;
    document.addEventListener("visibilitychange", () => this.#look());
  }

  /** Connects now, whatever it was doing. */
  restart() {
    this.#stop();
    this.#delay = BACKOFF_MS_MIN;
    this.#connect();
  }

  #look() {
    clearTimeout(this.#timers.hidden);
    if (document.hidden) {
      this.#timers.hidden = setTimeout(() => this.#pause(), HIDDEN_MS_MAX);
    } else if (!this.#controller) {
      this.restart();
    }
  }

  #pause() {
    this.#stop();
    this.#onState("waiting", "paused while nobody looks", null);
  }

  #stop() {
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
    if (!this.#controller) return;
    this.#controller.abort();
    this.#controller = null;
    this.#onBreak();
  }

  async #connect() {
    const controller = new AbortController();
    this.#controller = controller;
    this.#onState("waiting", "connecting", null);
    const why = await this.#read(controller).catch((error) => words(error, controller));
    clearTimeout(this.#timers.stall);
    // Somebody else stopped it, and knows what to do next.
    if (this.#controller !== controller) return;
    controller.abort();
    this.#controller = null;
    this.#onBreak();
    if (why === null) this.#deny();
    else this.#retry(why);
  }

  /** Reads until the stream ends; says why it did, or null if a token is missing. */
  async #read(controller) {
    this.#watch(controller);
    const options = { headers: { ...headers(), Accept: "text/event-stream" }, cache: "no-store" };
    const response = await fetch(PATH, { ...options, signal: controller.signal });
    if (response.status === 401 || response.status === 403) return null;
    if (!response.ok) return (await problemOf(response)).detail ?? "the server refused";
    const parser = new EventParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return "the stream ended";
      for (const event of parser.push(value)) this.#take(event, controller);
    }
  }

  #take({ name, data }, controller) {
    if (name !== "stats" || this.#controller !== controller) return;
    const stats = JSON.parse(data);
    this.#watch(controller);
    this.#delay = BACKOFF_MS_MIN;
    this.#onState("live", "live", null);
    this.#onStats(stats);
  }

  #watch(controller) {
    clearTimeout(this.#timers.stall);
    this.#timers.stall = setTimeout(() => controller.abort(), STALL_MS);
  }

  #deny() {
    askForToken();
    this.#onState("denied", "needs a token", null);
  }

  #retry(why) {
    // Pages that lost the same server do not all come back at the same moment.
    const delay = this.#delay * (0.75 + Math.random() * 0.5);
    this.#delay = Math.min(this.#delay * 2, BACKOFF_MS_MAX);
    this.#onState("waiting", why, performance.now() + delay);
    this.#timers.retry = setTimeout(() => this.#connect(), delay);
  }
}

function words(error, controller) {
  if (controller.signal.aborted) return `nothing was heard for ${STALL_MS / 1000} s`;
  return error instanceof SyntaxError ? "the stream cannot be read" : "the server cannot be reached";
}
