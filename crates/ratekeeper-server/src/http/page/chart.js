// One chart: five minutes of allowed, denied and shadow decisions per second, as SVG, which is
// sharp on every screen and takes its colours from the style sheet.

import { breakable, el, setAttribute, setText } from "./dom.js";
import { plain, rate } from "./format.js";
import { WINDOW_SECS } from "./history.js";

const SVG = "http://www.w3.org/2000/svg";
/** The plot in its own units: one per second across, and a hundred up. */
const HEIGHT = 100;
/** Room above the highest point, so that its line is not cut in half. */
const HEADROOM = 4;
const KINDS = ["allowed", "denied", "shadow"];
const STEPS = [1, 2, 5];
/** How often the words for screen readers change: often enough to ask, too seldom to chatter. */
const LABEL_MS = 5000;

export class Chart {
  #paths = {};
  #numbers = {};
  #labelled = -Infinity;
  #pointed = null;

  /** A chart of the limit `name`, or of everything if it is null. */
  constructor(name) {
    this.name = name;
    this.terms = el("span", { class: "hint" });
    this.svg = this.#plot();
    this.scale = el("span", { class: "scale", "aria-hidden": "true" });
    this.when = el("span", { class: "when", "aria-hidden": "true" });
    const axis = [el("span", { class: "from", "aria-hidden": "true" }, "5 min ago"), this.when];
    const legend = el("ul", { class: "legend" }, ...KINDS.map((kind) => this.#key(kind)));
    const caption = el("figcaption", {}, el("b", {}, ...breakable(name ?? "All limits")), " ", this.terms);
    this.node = el("figure", { class: "chart card", "data-limit": name ?? "*" }, caption,
      el("div", { class: "plot" }, this.svg, this.scale, ...axis), legend);
    this.#follow();
  }

  /** Draws what `history` knows, with `now` at the right edge. */
  draw(history, now) {
    const x = (at) => WINDOW_SECS - (now - at);
    const runs = runsOf(history, this.name);
    const top = niceTop(Math.max(1, ...runs.flat().map(({ rates }) => Math.max(...rates))));
    const y = (value) => HEIGHT - (value / top) * (HEIGHT - HEADROOM);
    KINDS.forEach((kind, index) => {
      // What never happened needs no line along the bottom; what is allowed always has one.
      const isSeen = index === 0 || runs.flat().some(({ rates }) => rates[index] > 0);
      const path = isSeen ? runs.map((run) => line(run, index, x, y)).join("") : "";
      this.#paths[kind].setAttribute("d", path);
    });
    this.#paths.area.setAttribute("d", runs.map((run) => area(run, x, y)).join(""));
    this.#paths.gap.setAttribute("d", gaps(runs, now, x));
    setText(this.scale, `${rate(top)}/s`);
    this.#tell(history, runs, now);
  }

  #tell(history, runs, now) {
    const current = history.current(this.name) ?? [NaN, NaN, NaN];
    KINDS.forEach((kind, index) => setAttribute(this.node, `data-${kind}-rate`, plain(current[index])));
    setAttribute(this.node, "data-points", runs.reduce((sum, run) => sum + run.length, 0));
    setAttribute(this.node, "data-gaps", Math.max(0, runs.length - 1));
    const pointed = this.#pointedAt(runs, now);
    setText(this.when, pointed ? `${Math.round(now - pointed.at)} s ago` : "now");
    const shown = pointed?.rates ?? current;
    KINDS.forEach((kind, index) => setText(this.#numbers[kind], rate(shown[index])));
    this.#label(current);
  }

  #label(current) {
    const now = performance.now();
    if (now - this.#labelled < LABEL_MS) return;
    if (Number.isFinite(current[0])) this.#labelled = now;
    const words = KINDS.map((kind, index) => `${rate(current[index])} ${kind}`).join(", ");
    setAttribute(this.svg, "aria-label", `${this.name ?? "All limits"}, decisions per second: ${words}`);
  }

  #plot() {
    const svg = draw("svg", { viewBox: `0 0 ${WINDOW_SECS} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    const half = HEIGHT - (HEIGHT - HEADROOM) / 2;
    svg.append(draw("path", { class: "rule", d: `M0 ${HEADROOM}H${WINDOW_SECS}M0 ${half}H${WINDOW_SECS}` }));
    for (const name of ["gap", "area", ...KINDS]) {
      this.#paths[name] = draw("path", { class: name });
      svg.append(this.#paths[name]);
    }
    this.pointer = draw("path", { class: "pointer" });
    svg.append(this.pointer);
    return svg;
  }

  #key(kind) {
    this.#numbers[kind] = el("b", {}, "–");
    const swatch = draw("svg", { class: "swatch", viewBox: "0 0 22 10", "aria-hidden": "true" });
    swatch.append(draw("path", { class: kind, d: "M1 5H21" }));
    return el("li", {}, swatch, this.#numbers[kind], " ", el("span", {}, kind));
  }

  /** Shows the numbers of the moment that a pointer is at. */
  #follow() {
    const redraw = () => this.node.dispatchEvent(new CustomEvent("redraw", { bubbles: true }));
    this.svg.addEventListener("pointermove", (event) => {
      const box = this.svg.getBoundingClientRect();
      this.#pointed = ((event.clientX - box.left) / box.width) * WINDOW_SECS;
      redraw();
    });
    this.svg.addEventListener("pointerleave", () => {
      this.#pointed = null;
      redraw();
    });
  }

  #pointedAt(runs, now) {
    const wanted = this.#pointed === null ? null : now - WINDOW_SECS + this.#pointed;
    const found = wanted === null ? null : nearest(runs.flat(), wanted);
    setAttribute(this.pointer, "d", found ? `M${(WINDOW_SECS - (now - found.at)).toFixed(1)} 0V${HEIGHT}` : "");
    return found;
  }
}

function draw(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

/** The points without a gap between them, run by run. */
function runsOf(history, name) {
  const runs = [];
  let run = [];
  for (const point of history.points) {
    const rates = history.rates(point, name);
    if (rates) run.push({ at: point.at, rates });
    else if (run.length > 0) {
      runs.push(run);
      run = [];
    }
  }
  if (run.length > 0) runs.push(run);
  return runs;
}

function line(run, index, x, y) {
  const points = run.map(({ at, rates }) => `${x(at).toFixed(1)} ${y(rates[index]).toFixed(1)}`);
  // A single point has no length; half a second of it can be seen.
  return `M${points.join("L")}${points.length === 1 ? "h.5" : ""}`;
}

function area(run, x, y) {
  const points = run.map(({ at, rates }) => `L${x(at).toFixed(1)} ${y(rates[0]).toFixed(1)}`);
  return `M${x(run[0].at).toFixed(1)} ${HEIGHT}${points.join("")}V${HEIGHT}Z`;
}

/** Bands over the time of which nothing is known, between runs and since the last one. */
function gaps(runs, now, x) {
  const edges = runs.map((run) => [run[0].at, run.at(-1).at]);
  edges.push([now, now]);
  const bands = edges.slice(1).map(([start], index) => [edges[index][1], start]);
  const wide = bands.filter(([from, to]) => to - from > 1.9);
  return wide.map(([from, to]) => `M${x(from).toFixed(1)} 0H${x(to).toFixed(1)}V${HEIGHT}H${x(from).toFixed(1)}Z`).join("");
}

function nearest(points, at) {
  let found = null;
  for (const point of points) {
    if (!found || Math.abs(point.at - at) < Math.abs(found.at - at)) found = point;
  }
  return found;
}

/** The next of 1, 2, 5, 10, 20, 50 and so on: a scale that does not twitch. */
function niceTop(peak) {
  const power = 10 ** Math.floor(Math.log10(peak));
  return (STEPS.find((step) => step * power >= peak) ?? 10) * power;
}
