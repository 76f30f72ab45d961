// The last five minutes of decisions per second, from counters that only say "since the start".

export const WINDOW_SECS = 300;
/** Two counts further apart than this say nothing about a single second. */
const GAP_SECS = 5;
/** How far two readings of the moment a server started may differ, rounded as they are. */
const START_SLACK_SECS = 3;
const POINTS_MAX = 2 * WINDOW_SECS;
/** How many limits a point remembers, the busiest first. The server names no more than these. */
const LIMITS_MAX = 1000;

const QUIET = [0, 0, 0];
const sum = ([allowed, denied, shadow]) => allowed + denied + shadow;
const counters = (limit) => [limit.allowed ?? 0, limit.denied ?? 0, limit.shadow ?? 0];

export class History {
  constructor() {
    /** Oldest first: `{ at, all, limits }`, or `{ at, all: null }` where nothing is known. */
    this.points = [];
    this.last = null;
  }

  get at() {
    return this.last?.at ?? null;
  }

  /** Takes what the server counted. The first reading is only what the next is compared with. */
  take(stats) {
    const before = this.last;
    const { at, limits = {}, others = {} } = stats;
    const now = { at, started: at - stats.uptime_secs, limits, others };
    if (before && now.at === before.at) return;
    this.last = now;
    // Another server's clock: what was drawn by the old one has no place on the new axis.
    if (before && now.at < before.at) this.points = [];
    if (!before || isApart(before, now)) this.#gap(now.at);
    else this.#point(before, now);
    while (this.points.length > POINTS_MAX || this.points[0]?.at < now.at - WINDOW_SECS - 1) {
      this.points.shift();
    }
  }

  /** What follows was not seen: the next reading starts a new line. */
  breakOff() {
    this.last = this.last && { ...this.last, limits: null };
  }

  /** `[allowed, denied, shadow]` per second in one point, of a limit or, for null, of all. */
  rates(point, name) {
    if (!point.all) return null;
    return name === null ? point.all : (point.limits.get(name) ?? QUIET);
  }

  /** Whether limits were asked that are too many to be told by name. */
  get hasOthers() {
    return sum(counters(this.last?.others ?? {})) > 0;
  }

  /** The newest rates, or null while there are none. */
  current(name) {
    const point = this.points.at(-1);
    return point && this.last?.limits ? this.rates(point, name) : null;
  }

  /** How much each limit was asked in the window, by name. */
  totals() {
    const totals = new Map();
    for (const { limits } of this.points) {
      for (const [name, rates] of limits ?? []) {
        totals.set(name, (totals.get(name) ?? 0) + sum(rates));
      }
    }
    return totals;
  }

  #gap(at) {
    // One mark is enough for a gap, however often it was tried again.
    if (this.points.length > 0) this.points.push({ at, all: null, limits: null });
  }

  #point(before, now) {
    const secs = now.at - before.at;
    // Limits without a name are part of everything, and have no line of their own.
    const all = perSecond(counters(now.others), counters(before.others), secs);
    let limits = [];
    for (const [name, limit] of Object.entries(now.limits)) {
      const rates = perSecond(counters(limit), counters(before.limits[name] ?? {}), secs);
      rates.forEach((rate, index) => (all[index] += rate));
      if (sum(rates) > 0) limits.push([name, rates]);
    }
    if (limits.length > LIMITS_MAX) {
      limits = limits.sort((a, b) => sum(b[1]) - sum(a[1])).slice(0, LIMITS_MAX);
    }
    this.points.push({ at: now.at, all, limits: new Map(limits) });
  }
}

/** Whether nothing can be said about the time between two readings. */
function isApart(before, now) {
  const secs = now.at - before.at;
  const restarted = Math.abs(now.started - before.started) > START_SLACK_SECS;
  return before.limits === null || restarted || secs < 0 || secs > GAP_SECS || shrank(before, now);
}

/** A counter that is smaller than it was began anew, and with it the server. */
function shrank(before, now) {
  const isLess = (fresh, old) => counters(fresh).some((value, index) => value < counters(old)[index]);
  const names = Object.entries(before.limits);
  return isLess(now.others, before.others) || names.some(([name, limit]) => isLess(now.limits[name] ?? limit, limit));
}

function perSecond(now, before, secs) {
  return now.map((value, index) => Math.max(0, value - before[index]) / secs);
}
