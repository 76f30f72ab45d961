// The busiest and the most denied ids: over all limits from the feed, or of one limit.

import { breakable, byId, el, setText, Table } from "./dom.js";
import { count } from "./format.js";
import { ask } from "./session.js";

/** How often the ids of one limit are asked for, while they are looked at. */
const ASK_MS = 5000;
/** What the server ends an id with that is too long to be told. */
const CUT = "…";

export class Ids {
  #asked = -Infinity;
  #stats = null;

  /** `onPick` is told the limit and the id that somebody chose from the lists. */
  constructor(onPick) {
    this.limit = byId("ids-limit");
    this.busiest = new Table(byId("busiest"), "Busiest", columns("Asked", onPick));
    this.denied = new Table(byId("most-denied"), "Most denied", columns("Denied", onPick));
    this.limit.addEventListener("change", () => {
      this.#asked = -Infinity;
      this.show(this.#stats);
    });
  }

  /** Shows what the feed told, or asks for one limit when it is time to. */
  show(stats) {
    this.#stats = stats;
    if (this.limit.value) this.#showLimit(this.limit.value);
    else if (stats) this.#showAll(stats);
  }

  #showAll({ busiest, most_denied: denied }) {
    setText(byId("ids-note"), "Over all limits, since the server started.");
    this.#rows(busiest ?? [], denied ?? []);
  }

  async #showLimit(limit) {
    const now = performance.now();
    if (now - this.#asked < ASK_MS) return;
    this.#asked = now;
    const answer = await ask(`/v1/busiest/${encodeURIComponent(limit)}`);
    // Somebody may have chosen another limit meanwhile.
    if (this.limit.value !== limit) return;
    if (!answer.ok) {
      setText(byId("ids-note"), answer.problem.detail);
      return;
    }
    const { asked, denied, busiest, most_denied: most } = answer.data;
    const times = `asked ${count(asked)} times, denied ${count(denied)} times`;
    setText(byId("ids-note"), `${limit}: ${times} since the server started.`);
    const named = (rows) => (rows ?? []).map((row) => ({ limit, ...row }));
    this.#rows(named(busiest), named(most));
  }

  #rows(busiest, denied) {
    show(this.busiest, busiest);
    show(this.denied, denied);
  }
}

function show(table, rows) {
  table.say(rows.length > 0 ? "" : "none yet");
  table.show(rows, (row) => `${row.limit}\n${row.id}`, (node, row) => {
    node.dataset.limit = row.limit;
    node.dataset.id = row.id;
  });
}

function columns(counted, onPick) {
  return [
    { label: "Id", fill: (cell, row) => fillId(cell, row, onPick) },
    { label: counted, number: true, text: (row) => count(row.count) },
    { label: "Stated error", number: true, text: (row) => error(row.error) },
  ];
}

const error = (value) => (value > 0 ? `at most ${count(value)} too high` : "exact");

function fillId(cell, row, onPick) {
  // The key of a row is its limit and id, so what is in it never changes.
  if (cell.firstChild) return;
  const id = row.id.endsWith(CUT) ? el("span", { title: "Only the start of a long id" }, row.id) : button(row, onPick);
  cell.append(id, " ", el("span", { class: "hint" }, ...breakable(row.limit)));
}

function button(row, onPick) {
  const node = el("button", { type: "button", class: "link", title: "Look this id up" }, row.id);
  node.addEventListener("click", () => onPick(row.limit, row.id));
  return node;
}
