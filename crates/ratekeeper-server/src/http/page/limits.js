// The limits there are: their table, and the lists in forms that name them.

import { byId, el, setText, Table } from "./dom.js";
import { count, place } from "./format.js";
import { ask } from "./session.js";

/** More rows or choices than this help nobody: there is a filter, and names can be typed. */
const ROWS_MAX = 200;
const CHOICES_MAX = 1000;
/** The server tells them page by page. Whoever has more limits than these hold finds them by name. */
const PAGES_MAX = 20;

const COLUMNS = [
  { label: "Limit", text: (limit) => limit.name },
  { label: "Allows", text: (limit) => limit.terms ?? "no default" },
  { label: "Burst", number: true, text: (limit) => count(limit.burst) },
  { label: "Ids", text: (limit) => (limit.is_bucket ? "everybody shares it" : (limit.id_format ?? "any")) },
  { label: "Mode", text: (limit) => (limit.shadow ? "shadow: lets everything through" : "enforced") },
  { label: "Share of memory", text: memory },
  { label: "Overrides", number: true, text: (limit) => count(limit.overrides) },
  { label: "Written in", text: (limit) => place(limit.origin) ?? "–" },
];

/** How many ordinary shares of a full memory it has, and what it does with new ids beyond them. */
function memory({ share = 1, on_full: onFull }) {
  return onFull === "forget" ? `${share}, forgets` : String(share);
}

export class LimitsList {
  #limits = [];
  #hasMore = false;
  #number = 0;
  #onLimits;

  /** `onLimits` is told the limits whenever they were read. */
  constructor(onLimits) {
    this.#onLimits = onLimits;
    this.table = new Table(byId("limits"), "Limits", COLUMNS);
    this.filter = byId("limits-filter");
    this.filter.addEventListener("input", () => this.#show());
  }

  /** Reads the limits, and says whether that is done. */
  async load() {
    this.#number += 1;
    const number = this.#number;
    const answer = await readPages();
    // Only the newest question may answer.
    if (number !== this.#number) return false;
    const problem = byId("limits-problem");
    problem.hidden = answer.ok;
    setText(problem, answer.ok ? "" : answer.problem.detail);
    if (!answer.ok) return false;
    this.#limits = answer.limits;
    this.#hasMore = answer.hasMore;
    this.#show();
    this.#offer();
    this.#onLimits(this.#limits);
    return true;
  }

  #show() {
    const wanted = this.filter.value.trim().toLowerCase();
    const found = this.#limits.filter((limit) => limit.name.toLowerCase().includes(wanted));
    const shown = found.slice(0, ROWS_MAX);
    const counted = found.length > shown.length ? `${shown.length} of ${count(found.length)}` : count(found.length);
    const first = this.#hasMore ? `; only the first ${count(this.#limits.length)} limits were read` : "";
    this.table.say(`${counted}${first}`);
    this.table.show(shown, (limit) => limit.name, (row, limit) => (row.dataset.limit = limit.name));
  }

  #offer() {
    const names = this.#limits.slice(0, CHOICES_MAX).map((limit) => limit.name);
    byId("limit-names").replaceChildren(...names.map((name) => el("option", { value: name })));
    for (const select of [byId("ids-limit"), byId("overrides-limit")]) {
      const chosen = select.value;
      select.replaceChildren(select.options[0], ...names.map((name) => el("option", { value: name }, name)));
      select.value = names.includes(chosen) ? chosen : "";
    }
  }
}

/** All limits, or as many as there may be here: `{ ok: true, limits, hasMore }`, or what went wrong. */
async function readPages() {
  const limits = [];
  let query = "";
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const answer = await ask(`/v1/limits${query}`);
    if (!answer.ok) return answer;
    const { limits: more, next } = answer.data;
    limits.push(...more);
    if (!next) return { ok: true, limits, hasMore: false };
    query = `?${new URLSearchParams({ after: next })}`;
  }
  return { ok: true, limits, hasMore: true };
}
