// One id: what applies to it and why, what is left, and what would be answered.

import { breakable, byId, el, facts, setText } from "./dom.js";
import { count, moment, place, seconds } from "./format.js";
import { clearProblem, isAddressable, isFilled, showProblem } from "./forms.js";
import { ask } from "./session.js";

/** Everybody together, in limits that all share. */
const EVERYBODY = "*";
const COMMAND = "ratekeeper ask --check LIMIT -- ID";

export class Lookup {
  #onOverride;
  #number = 0;

  /** `onOverride` is told the explanation that somebody wants to change with an override. */
  constructor(onOverride) {
    this.#onOverride = onOverride;
    this.form = byId("lookup-form");
    this.result = byId("lookup-result");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#look();
    });
    // While it is typed, not when it is left: what moves under a pointer cannot be clicked.
    this.form.elements.limit.addEventListener("input", () => this.#suggest());
  }

  /** The limits there are, for what is said about their ids. */
  know(limits) {
    this.limits = new Map(limits.map((limit) => [limit.name, limit]));
    this.#suggest();
  }

  /** Looks up an id that was picked elsewhere on the page. */
  pick(limit, id) {
    this.form.elements.limit.value = limit;
    this.form.elements.id.value = id;
    this.#suggest();
    byId("lookup").scrollIntoView();
    this.form.elements.id.focus({ preventScroll: true });
    return this.#look();
  }

  #suggest() {
    const { limit: name, id } = this.form.elements;
    const limit = this.limits?.get(name.value.trim());
    if (limit?.is_bucket && !id.value) id.value = EVERYBODY;
    setText(byId("lookup-id-hint"), limit ? about(limit) : "What ids look like depends on the limit.");
  }

  async #look() {
    clearProblem(this.form);
    const { limit, id, cost } = this.form.elements;
    if (!isFilled(this.form) || !isAddressable(this.form, id.value, COMMAND)) return;
    this.#number += 1;
    const number = this.#number;
    const at = `${encodeURIComponent(limit.value.trim())}/${encodeURIComponent(id.value)}`;
    const asked = encodeURIComponent(cost.value || "1");
    this.result.setAttribute("aria-busy", "true");
    const explained = await ask(`/v1/explain/${at}?cost=${asked}`);
    const bucket = explained.ok ? await ask(`/v1/buckets/${at}`) : explained;
    // Only the newest question may answer.
    if (number !== this.#number) return;
    this.result.removeAttribute("aria-busy");
    if (explained.ok) this.#show(explained.data, bucket.ok ? bucket.data : null);
    else this.#fail(explained.problem);
  }

  #fail(problem) {
    showProblem(this.form, problem);
    this.result.dataset.state = "problem";
    this.result.replaceChildren(el("h3", {}, problem.title ?? "Refused"), el("p", {}, problem.detail ?? ""));
  }

  #show(explained, bucket) {
    const override = el("button", { type: "button", class: "quiet" }, "Override this ..");
    override.addEventListener("click", () => this.#onOverride(explained));
    const list = el("dl", { class: "facts" });
    facts(list, pairs(explained, bucket));
    const answer = verdict(explained);
    this.result.dataset.state = explained.answer?.allowed ? "allowed" : "denied";
    // Only the answer is read out; the rest is there to be read.
    setText(byId("announce"), answer?.textContent ?? "");
    this.result.replaceChildren(...[
      el("h3", {}, ...breakable(explained.limit?.name ?? ""), ` for ${explained.id}`),
      answer,
      level(explained),
      list,
      el("pre", { tabindex: "0", "aria-label": "The whole explanation" }, explained.text ?? ""),
      el("div", { class: "actions" }, override, el("span", { class: "hint" }, `as of ${new Date().toLocaleTimeString()}`)),
    ].filter(Boolean));
  }
}

function about(limit) {
  if (limit.is_bucket) return `A bucket that everybody shares: its id is ${EVERYBODY}.`;
  return `${limit.terms ?? "No default"}. Ids are of the format ${limit.id_format ?? "any"}.`;
}

function verdict({ answer, cost }) {
  if (!answer) return null;
  const costs = `A cost of ${count(cost)} now`;
  if (answer.shadow) {
    const words = `${costs} would be denied, but is let through: the limit is a shadow.`;
    return el("p", { class: "verdict shadow" }, el("b", {}, "Shadow"), ` ${words}`);
  }
  if (answer.allowed) {
    const words = `${costs} would be allowed, and leave ${count(answer.remaining)}.`;
    return el("p", { class: "verdict allowed" }, el("b", {}, "Allowed"), ` ${words}`);
  }
  const when = typeof answer.retry_in === "number" ? `allowed in ${seconds(answer.retry_in)}` : "waiting would not help";
  return el("p", { class: "verdict denied" }, el("b", {}, "Denied"), ` ${costs} would be denied; ${when}.`);
}

/** How full the bucket is, as a bar. */
function level({ applies, now }) {
  if (!applies || !now) return null;
  const bar = el("div", { class: "fill" });
  bar.style.width = `${Math.min(100, (100 * now.remaining) / applies.burst)}%`;
  const attributes = {
    class: "meter",
    role: "meter",
    "aria-label": "Tokens left",
    "aria-valuemin": 0,
    "aria-valuemax": applies.burst,
    "aria-valuenow": now.remaining,
  };
  return el("div", attributes, bar);
}

function pairs({ applies, default: fallback, bucket: key, now }, bucket) {
  return [
    ["Applies", applies ? `${applies.terms}: ${applies.kind === "override" ? "an override" : "the default"}` : null],
    ["Written in", place(applies?.origin)],
    ["Comment", applies?.comment || null],
    ...runTime(applies?.run_time),
    ["Default", applies?.kind === "override" ? words(fallback) : null],
    ["Bucket", el("code", {}, key)],
    ["Left", now && applies ? `${count(now.remaining)} of ${count(applies.burst)} tokens` : null],
    ["One more token", bucket ? next(bucket.next_in) : null],
    ["Full", now ? next(now.reset_in) : null],
  ];
}

function runTime(set) {
  if (!set) return [];
  return [
    ["Set by", `${set.by ?? "somebody"}, ${moment(set.at)}`],
    ["Why", set.why || "no reason was given"],
    ["Until", set.until ? moment(set.until) : "for good"],
  ];
}

function words(fallback) {
  if (!fallback) return "none";
  const origin = place(fallback.origin);
  return origin ? `${fallback.terms} (${origin})` : fallback.terms;
}

const next = (secs) => (secs === 0 ? "now: the bucket is full" : `in ${seconds(secs)}`);
