// The limits there are: their table, and the lists in forms that name them.

import { byId, el, setText, Table } from "./dom.js";
import { count, place } from "./format.js";
import { ask } from "./session.js";

/** More rows or choices than this help nobody: there is a filter, and names can be typed. */
const ROWS_MAX = 200;
const CHOICES_MAX = 1000;

const COLUMNS = [
  { label: "Limit", text: (limit) => limit.name },
  { label: "Allows", text: (limit) => limit.terms ?? "no default" },
  { label: "Burst", number: true, text: (limit) => count(limit.burst) },
  { label: "Ids", text: (limit) => (limit.is_bucket ? "everybody shares it" : (limit.id_format ?? "any")) },
  { label: "Mode", text: (limit) => (limit.shadow ? "shadow: lets everything through" : "enforced") },
  { label: "Overrides", number: true, text: (limit) => count(limit.overrides) },
  { label: "Written in", text: (limit) => place(limit.origin) ?? "–" },
];

export class LimitsList {
  #limits = [];
  #onLimits;

  /** `onLimits` is told all limits whenever they were read. */
  constructor(onLimits) {
    this.#onLimits = onLimits;
    this.table = new Table(byId("limits"), "Limits", COLUMNS);
    this.filter = byId("limits-filter");
    this.filter.addEventListener("input", () => this.#show());
  }

  async load() {
    const answer = await ask("/v1/limits");
    const problem = byId("limits-problem");
    problem.hidden = answer.ok;
    setText(problem, answer.ok ? "" : answer.problem.detail);
    if (!answer.ok) return;
    this.#limits = answer.data.limits;
    this.#show();
    this.#offer();
    this.#onLimits(this.#limits);
  }

  #show() {
    const wanted = this.filter.value.trim().toLowerCase();
    const found = this.#limits.filter((limit) => limit.name.toLowerCase().includes(wanted));
    const shown = found.slice(0, ROWS_MAX);
    this.table.say(found.length > shown.length ? `${shown.length} of ${count(found.length)}` : count(found.length));
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
