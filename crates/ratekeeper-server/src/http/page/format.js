// Numbers and moments as people read them.

const NOTHING = "–";
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const TENTHS = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const SHORT_FROM = 100_000;
const TENTHS_BELOW = 100;
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const TIME_UNITS = [[31_557_600, "y"], [86_400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

/** As limits files write them, in nanoseconds. */
const PERIOD_UNITS = [
  [86_400_000_000_000n, "d"],
  [3_600_000_000_000n, "h"],
  [60_000_000_000n, "m"],
  [1_000_000_000n, "s"],
  [1_000_000n, "ms"],
  [1000n, "us"],
  [1n, "ns"],
];
const WEEK_NS = 604_800_000_000_000n;
const SECOND_NS = 1_000_000_000n;

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

export function count(value) {
  if (!isNumber(value)) return NOTHING;
  return value < SHORT_FROM ? WHOLE.format(value) : SHORT.format(value);
}

export function rate(value) {
  if (!isNumber(value)) return NOTHING;
  return value < TENTHS_BELOW ? TENTHS.format(value) : count(value);
}

/** For attributes that programs read: as exact as a rate can be. */
export const plain = (value) => (isNumber(value) ? String(Math.round(value * 1000) / 1000) : "");

export function bytes(value) {
  if (!isNumber(value)) return NOTHING;
  let unit = 0;
  while (value >= 1024 && unit < BYTE_UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${TENTHS.format(value)} ${BYTE_UNITS[unit]}`;
}

export const micros = (value) => (isNumber(value) ? seconds(value / 1e6) : NOTHING);

/** A length of time: its two largest units, or a decimal if it is short. */
export function seconds(value) {
  if (!isNumber(value)) return NOTHING;
  if (value === 0) return "0s";
  if (value < 0.001) return `${significant(value * 1e6)}us`;
  if (value < 1) return `${significant(value * 1e3)}ms`;
  if (value < 60) return `${significant(value)}s`;
  const parts = [];
  let rest = Math.round(value);
  for (const [size, unit] of TIME_UNITS) {
    if (rest >= size && parts.length < 2) parts.push(`${Math.floor(rest / size)}${unit}`);
    else if (parts.length > 0) break;
    rest %= size;
  }
  return parts.join(" ");
}

/** A period as limits files write it, to the nanosecond; nothing if it is not known so exactly. */
export function period(nanos) {
  if (!Number.isInteger(nanos) || nanos <= 0) return "";
  let rest = BigInt(nanos);
  // From 104 days on JavaScript rounds what it is told: whole seconds stay, of others nothing is said.
  if (!Number.isSafeInteger(nanos) && rest % SECOND_NS !== 0n) return "";
  if (rest % WEEK_NS === 0n) return `${rest / WEEK_NS}w`;
  let words = "";
  for (const [size, unit] of PERIOD_UNITS) {
    if (rest >= size) words += `${rest / size}${unit}`;
    rest %= size;
  }
  return words;
}

const significant = (value) => String(Number(value.toPrecision(3)));

/** A point in time, from seconds since 1970 or as it is written in JSON. */
export function moment(value) {
  const date = asDate(value);
  return date ? MOMENT.format(date) : NOTHING;
}

export function asDate(value) {
  if (value === null || value === undefined) return null;
  const date = new Date(isNumber(value) ? value * 1000 : value);
  return Number.isNaN(date.getTime()) ? null : date;
}

export function place(origin) {
  if (!origin?.file) return null;
  return origin.line ? `${origin.file}:${origin.line}` : origin.file;
}
