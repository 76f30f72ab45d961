// Which charts are shown: one of everything, and the busiest limits or those asked for by name.

import { Chart } from "./chart.js";
import { byId, keyed, setText } from "./dom.js";
import { count } from "./format.js";

const CHARTS = 12;
const CHARTS_MAX = 48;
/** How often the busiest are chosen again: charts that jump about cannot be read. */
const CHOOSE_MS = 10_000;
const OTHERS = "There are more limits than the server tells by name: those are only in “All limits”.";

export class Charts {
  #all = new Chart(null);
  #charts = new Map();
  #names = [];
  #terms = new Map();
  #chosen = -Infinity;

  constructor(history) {
    this.history = history;
    this.node = byId("charts");
    this.filter = byId("chart-filter");
    this.#all.node.id = "chart-all";
    this.#all.node.classList.add("large");
    byId("all").append(this.#all.node);
    this.filter.addEventListener("input", () => {
      this.#chosen = -Infinity;
      this.draw();
    });
    byId("traffic").addEventListener("redraw", () => this.draw());
  }

  /** The limits there are, for charts of those that are not asked for. */
  know(limits) {
    this.#terms = new Map(limits.map((limit) => [limit.name, words(limit)]));
    for (const [name, chart] of this.#charts) setText(chart.terms, this.#terms.get(name) ?? "");
  }

  /** Draws as of `now`, in the server's seconds since 1970; again as of the same if left out. */
  draw(now = this.now) {
    if (!now) return;
    this.now = now;
    this.#choose();
    this.#all.draw(this.history, now);
    for (const name of this.#names) this.#charts.get(name).draw(this.history, now);
  }

  #choose() {
    const at = performance.now();
    const settled = this.history.points.length > 1 && this.#names.length > 0;
    if (settled && at - this.#chosen < CHOOSE_MS) return;
    // Whoever is reading a chart keeps it.
    if (this.node.matches(":hover") && this.#chosen > 0) return;
    this.#chosen = at;
    const wanted = this.filter.value.trim().toLowerCase();
    const names = this.#ranked().filter((name) => name.toLowerCase().includes(wanted));
    this.#names = names.slice(0, wanted ? CHARTS_MAX : CHARTS);
    const words = note(names.length, this.#names.length, wanted);
    setText(byId("charts-note"), this.history.hasOthers ? `${words} ${OTHERS}` : words);
    this.#lay();
  }

  #ranked() {
    const totals = this.history.totals();
    const names = Object.keys(this.history.last?.limits ?? {});
    const known = names.length > 0 ? names : [...this.#charts.keys()];
    return known.sort((a, b) => (totals.get(b) ?? 0) - (totals.get(a) ?? 0) || (a < b ? -1 : 1));
  }

  #lay() {
    const make = (name) => {
      const chart = new Chart(name);
      setText(chart.terms, this.#terms.get(name) ?? "");
      this.#charts.set(name, chart);
      return chart.node;
    };
    keyed(this.node, this.#names, (name) => name, make, () => {});
    const shown = new Set(this.#names);
    for (const name of this.#charts.keys()) if (!shown.has(name)) this.#charts.delete(name);
  }
}

const words = (limit) => [limit.terms ?? "no default", limit.shadow ? "shadow" : ""].filter(Boolean).join(", ");

function note(found, shown, wanted) {
  if (wanted && found === 0) return "No limit with a chart is named like that.";
  if (wanted && found > shown) return `The busiest ${shown} of ${count(found)} named like that: write more of the name.`;
  if (wanted) return `${count(found)} named like that.`;
  if (found > shown) return `The busiest ${shown} of ${count(found)} limits in the last five minutes.`;
  return found === 0 ? "No limit was asked yet." : `All ${count(found)} limits, the busiest first.`;
}
