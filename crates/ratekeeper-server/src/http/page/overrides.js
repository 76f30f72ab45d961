// The overrides there are, and removing those that were made at run time.

import { breakable, byId, el, setText, Table } from "./dom.js";
import { count, moment, place } from "./format.js";
import { clearProblem, isAddressable, isFilled, showProblem } from "./forms.js";
import { ask } from "./session.js";

/** A page that holds more rows than this cannot be scrolled any more: the filter helps. */
const ROWS_MAX = 2000;

export class Overrides {
  #rows = [];
  #next = null;
  #number = 0;

  constructor() {
    this.limit = byId("overrides-limit");
    this.more = byId("overrides-more");
    this.removal = new Removal(() => this.load());
    const remove = (override) => this.removal.open(override);
    this.table = new Table(byId("overrides"), "Overrides", columns(remove));
    this.limit.addEventListener("change", () => this.load());
    this.more.addEventListener("click", () => this.#read(this.#next));
  }

  /** Reads the list from its start, and says whether that is done. */
  load() {
    return this.#read(null);
  }

  async #read(after) {
    this.#number += 1;
    const number = this.#number;
    const query = new URLSearchParams();
    if (this.limit.value) query.set("limit", this.limit.value);
    if (after) query.set("after", after);
    const answer = await ask(`/v1/overrides?${query}`);
    if (number !== this.#number) return false;
    const problem = byId("overrides-problem");
    problem.hidden = answer.ok;
    setText(problem, answer.ok ? "" : answer.problem.detail);
    if (!answer.ok) return false;
    this.#rows = after ? [...this.#rows, ...answer.data.overrides] : answer.data.overrides;
    this.#next = this.#rows.length < ROWS_MAX ? answer.data.next : null;
    this.#show();
    return true;
  }

  #show() {
    const shown = this.#rows.length;
    this.table.say(shown === 0 ? "none: every id has the default" : `${count(shown)}${this.#next ? " of more" : ""}`);
    this.more.hidden = !this.#next;
    // An override that replaced another is a new row: its button must not remove the old one.
    this.table.show(this.#rows, (row) => JSON.stringify(row), (node, row) => {
      node.dataset.limit = row.limit;
      node.dataset.id = row.id;
      node.dataset.source = row.source;
      node.dataset.inForce = row.in_force ?? true;
    });
  }
}

function columns(remove) {
  return [
    { label: "Id", fill: (cell, row) => once(cell, () => whose(row)) },
    { label: "Allows", text: (row) => allows(row) },
    { label: "From", text: (row) => from(row) },
    { label: "Why", text: (row) => row.why || "–" },
    { label: "Until", text: (row) => until(row) },
    { label: "Change", fill: (cell, row) => once(cell, () => [action(row, remove)]) },
  ];
}

const whose = ({ id, limit }) => [el("b", {}, id), " ", el("span", { class: "hint" }, ...breakable(limit))];

function once(cell, make) {
  if (!cell.firstChild) cell.append(...make());
}

function allows({ terms, in_force: inForce, reason }) {
  if (inForce !== false) return terms ?? "";
  return `${terms} (not in force${reason ? `: ${reason}` : ""})`;
}

function from({ source, origin, by, at }) {
  if (source === "file") return place(origin) ?? "a file";
  return `run time, by ${by ?? "somebody"}${at ? `, ${moment(at)}` : ""}`;
}

function until({ until: end, source }) {
  if (end) return moment(end);
  return source === "file" ? "–" : "for good";
}

function action(row, remove) {
  if (row.source === "file") return el("span", { class: "hint" }, "in its file");
  const label = `Remove the override of ${row.limit} for ${row.id}`;
  const button = el("button", { type: "button", class: "quiet", "aria-label": label }, "Remove ..");
  button.addEventListener("click", () => remove(row));
  return button;
}

/** Asks why before an override goes. */
class Removal {
  constructor(onDone) {
    this.onDone = onDone;
    this.dialog = byId("remove-dialog");
    this.form = byId("remove-form");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#remove();
    });
    byId("remove-cancel").addEventListener("click", () => this.dialog.close());
  }

  async open(override) {
    this.override = override;
    this.form.reset();
    clearProblem(this.form);
    setText(byId("remove-what"), `${override.limit} for ${override.id}: ${override.terms}.`);
    this.dialog.showModal();
    if (!this.#isAddressable()) return;
    const answer = await this.#send({ dry_run: "1", why: "to see what would change" });
    if (this.override !== override || !this.dialog.open) return;
    if (answer.ok) setText(byId("remove-what"), answer.data.change ?? "");
    else showProblem(this.form, answer.problem);
  }

  async #remove() {
    clearProblem(this.form);
    if (!isFilled(this.form) || !this.#isAddressable()) return;
    const answer = await this.#send({ why: this.form.elements.why.value.trim() });
    if (!answer.ok) {
      showProblem(this.form, answer.problem);
      return;
    }
    this.dialog.close();
    this.onDone();
  }

  #isAddressable() {
    return isAddressable(this.form, this.override.id, "ratekeeper override");
  }

  #send(query) {
    const { limit, id } = this.override;
    const path = `/v1/overrides/${encodeURIComponent(limit)}/${encodeURIComponent(id)}`;
    return ask(`${path}?${new URLSearchParams(query)}`, { method: "DELETE" });
  }
}
