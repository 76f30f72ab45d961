// Adding an override: first what would change, then putting it in force.

import { byId, el } from "./dom.js";
import { asDate, period } from "./format.js";
import { clearProblem, isAddressable, isFilled, showProblem } from "./forms.js";
import { ask } from "./session.js";

const NUMBERS = ["burst", "count"];
const WOULD_LOWER = "would-lower";

export class OverrideForm {
  #onDone;
  /** Of the newest question, or of what was written since: only that may be answered in the form. */
  #number = 0;

  /** `onDone` is called when an override was put in force. */
  constructor(onDone) {
    this.#onDone = onDone;
    this.form = byId("override-form");
    this.apply = byId("override-apply");
    this.lower = byId("override-lower-field");
    this.result = byId("override-result");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send(true);
    });
    this.apply.addEventListener("click", () => this.#send(false));
    this.form.addEventListener("input", (event) => this.#edited(event.target));
  }

  /** Starts from what applies to an id now. */
  begin({ limit, id, applies }) {
    const { elements } = this.form;
    const { burst = "", count = "", period_ns: nanos } = applies ?? {};
    this.form.reset();
    this.#edited(null);
    Object.assign(elements.limit, { value: limit?.name ?? "" });
    Object.assign(elements.id, { value: id });
    Object.assign(elements.burst, { value: burst });
    Object.assign(elements.count, { value: count });
    Object.assign(elements.period, { value: period(nanos) });
    this.form.scrollIntoView({ block: "nearest" });
    elements.burst.focus();
  }

  /** What was previewed is not what is written any more. */
  #edited(field) {
    this.#number += 1;
    this.apply.disabled = true;
    clearProblem(this.form);
    if (field?.name === "lower") {
      this.#send(true);
      return;
    }
    this.lower.hidden = true;
    this.form.elements.lower.checked = false;
    this.#say("empty", "Ask first what would change: nothing is written until you put it in force.");
  }

  async #send(isDry) {
    clearProblem(this.form);
    const { limit, id } = this.form.elements;
    if (!isFilled(this.form) || !areWhole(this.form)) return;
    if (!isAddressable(this.form, id.value, "ratekeeper override")) return;
    this.apply.disabled = true;
    this.#number += 1;
    const number = this.#number;
    const path = `/v1/overrides/${encodeURIComponent(limit.value.trim())}/${encodeURIComponent(id.value)}`;
    const body = bodyOf(this.form.elements);
    const answer = await ask(isDry ? `${path}?dry_run=1` : path, { method: "PUT", body });
    if (number !== this.#number) {
      if (!isDry) this.#late(answer);
    } else if (!answer.ok) this.#refused(answer);
    else if (isDry) this.#previewed(answer.data);
    else this.#done(answer.data);
  }

  #previewed(data) {
    // A dry run may tell that it lowers instead of refusing.
    const needsConsent = data.lowers && !this.form.elements.lower.checked;
    if (data.lowers) this.lower.hidden = false;
    this.apply.disabled = needsConsent;
    const lowers = needsConsent
      ? el("p", {}, "This allows the id less than now. If that is meant, tick “Lower it all the same”.")
      : null;
    this.#say("preview", "This would change:", change(data), lowers, el("p", { class: "hint" }, lasting(data)));
  }

  #refused({ status, problem }) {
    const lowers = status === 409 && String(problem.type ?? "").endsWith(WOULD_LOWER);
    if (lowers) this.lower.hidden = false;
    const advice = lowers ? "If that is meant, tick “Lower it all the same”." : undefined;
    showProblem(this.form, { advice, ...problem, ...(lowers && { field: "lower" }) });
    this.#say("problem", problem.title ?? "Refused", el("p", { class: "hint" }, "Nothing was changed."));
  }

  #done(data) {
    this.form.reset();
    this.lower.hidden = true;
    this.#tell(data);
  }

  /** The form says something else by now and keeps it, but what became of a change has to be told. */
  #late({ ok, data, problem }) {
    this.#number += 1;
    this.apply.disabled = true;
    if (ok) this.#tell(data);
    else this.#say("problem", problem.title ?? "Refused", el("p", {}, problem.detail ?? ""));
  }

  #tell(data) {
    this.#say("done", "In force:", change(data), el("p", { class: "hint" }, lasting(data)));
    this.#onDone();
  }

  #say(state, title, ...more) {
    this.result.dataset.state = state;
    const head = state === "empty" ? el("p", { class: "hint" }, title) : el("h3", {}, title);
    this.result.replaceChildren(head, ...more.filter(Boolean));
  }
}

/** Whether the numbers arrive as they are written: JSON from a browser rounds others. */
function areWhole(form) {
  const broken = NUMBERS.find((name) => !Number.isSafeInteger(Number(form.elements[name].value)));
  if (!broken) return true;
  showProblem(form, { field: broken, detail: `this is not a whole number up to ${Number.MAX_SAFE_INTEGER}` });
  return false;
}

function bodyOf(elements) {
  const body = { period: elements.period.value.trim(), why: elements.why.value.trim() };
  for (const name of NUMBERS) body[name] = Number(elements[name].value);
  // What is typed is local time; what is sent says so itself.
  const until = elements.until.value && asDate(elements.until.value);
  if (until) body.until = until.toISOString().replace(".000Z", "Z");
  if (elements.lower.checked) body.lower = true;
  return body;
}

function change({ change: words, before, after }) {
  return el("p", { class: "change" }, words ?? `${before ?? "nothing"} becomes ${after ?? "nothing"}`);
}

function lasting({ durable, dry_run: isDry }) {
  if (durable) return isDry ? "It would last over a restart." : "It lasts over a restart.";
  return "Without a state directory it lasts only until the server stops.";
}
