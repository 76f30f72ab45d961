// The schemas of an OpenAPI document as lists, with references followed but never in circles.

import { el } from "./dom.js";

/** References to references, and schemas in schemas, deeper than this are left as links. */
const DEPTH_MAX = 6;
const BOUNDS = [
  ["minimum", "at least"], ["exclusiveMinimum", "more than"], ["maximum", "at most"],
  ["exclusiveMaximum", "less than"], ["minLength", "length at least"], ["maxLength", "length at most"],
  ["minItems", "items at least"], ["maxItems", "items at most"], ["pattern", "matching"], ["default", "if left out:"],
];

/** What `value` stands for, if it is a reference; itself if not, or if it leads nowhere. */
export function resolve(document, value) {
  let found = value;
  for (let hops = 0; found?.$ref && hops < DEPTH_MAX; hops += 1) {
    if (!found.$ref.startsWith("#/")) return {};
    const parts = found.$ref.slice(2).split("/").map(unescapePart);
    found = parts.reduce((node, part) => node?.[part], document);
  }
  return found?.$ref ? {} : (found ?? {});
}

const unescapePart = (part) => decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");

/** The name of the schema that is referred to, if it has a card of its own. */
export const refName = (schema) => /^#\/components\/schemas\/(.+)$/.exec(schema?.$ref ?? "")?.[1] ?? null;

/** Text with its paragraphs, and `code` as code; without paragraphs it stays in one line. */
export function prose(text, hasParagraphs = true) {
  const pieces = (part) => part.split(/`([^`]+)`/).map((piece, index) => (index % 2 ? el("code", {}, piece) : piece));
  if (!hasParagraphs) return pieces(text);
  return text.split(/\n{2,}/).filter((part) => part.trim()).map((part) => el("p", {}, ...pieces(part.trim())));
}

/** The type of a schema in a few words. */
export function typeWords(document, raw, depth = 0) {
  const name = refName(raw);
  if (name) return name;
  const schema = resolve(document, raw);
  if (depth > DEPTH_MAX) return "..";
  const inner = (part) => typeWords(document, part, depth + 1);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const options = schema.oneOf ?? schema.anyOf;
  if (options) return options.map(inner).join(" | ");
  if (schema.allOf) return schema.allOf.map(inner).join(" & ");
  const types = [schema.type ?? (schema.properties ? "object" : "anything")].flat();
  const words = types.map((type) => (type === "array" ? `list of ${inner(schema.items ?? {})}` : type));
  if (schema.nullable) words.push("null");
  return words.join(" | ") + (schema.format ? ` (${schema.format})` : "");
}

/** A schema as a list of what it holds. `seen` are the schemas it is inside of. */
export function schemaTree(document, raw, ...seen) {
  const name = refName(raw);
  const schema = resolve(document, raw);
  if (name && (seen.includes(name) || seen.length > DEPTH_MAX)) return el("p", {}, link(name));
  const inside = name ? [...seen, name] : seen;
  const rows = rowsOf(document, schema, inside);
  const head = el("p", {}, ...words(document, raw), ...describe(schema));
  return rows.length > 0 ? el("div", {}, head, el("ul", { class: "tree" }, ...rows)) : head;
}

/** The rows below a schema: its properties, its items, its choices. */
function rowsOf(document, schema, seen) {
  if (seen.length > DEPTH_MAX) return [];
  const required = new Set(schema.required ?? []);
  const { properties = {}, items, additionalProperties: others, allOf = [] } = schema;
  const rows = Object.entries(properties).map(([key, part]) => row(document, key, part, required.has(key), seen));
  if (items) rows.push(...nested(document, "each", items, seen));
  if (typeof others === "object") rows.push(row(document, "any other name", others, false, seen));
  for (const part of allOf) rows.push(...rowsOf(document, resolve(document, part), [...seen, refName(part) ?? ""]));
  for (const part of schema.oneOf ?? schema.anyOf ?? []) rows.push(...nested(document, "one of", part, seen));
  return rows;
}

function row(document, key, part, isRequired, seen) {
  const schema = resolve(document, part);
  const marks = el("span", { class: "hint" }, ...words(document, part), isRequired ? ", required" : "");
  return el("li", {}, el("code", {}, key), " ", marks, ...describe(schema), ...below(document, part, seen));
}

/** The items of a list or one of several choices, if there is more to say than their type. */
function nested(document, label, part, seen) {
  const schema = resolve(document, part);
  const rows = below(document, part, seen);
  if (rows.length === 0 && !schema.description) return [];
  return [el("li", {}, el("span", { class: "hint" }, `${label}: `, ...words(document, part)), ...describe(schema), ...rows)];
}

function below(document, part, seen) {
  const name = refName(part);
  // Shown above already: its name is a link to it.
  if (name && seen.includes(name)) return [];
  const inside = [...seen, name ?? ""];
  const rows = rowsOf(document, resolve(document, part), inside);
  return rows.length > 0 ? [el("ul", { class: "tree" }, ...rows)] : [];
}

function words(document, raw) {
  const name = refName(raw);
  if (name) return [link(name)];
  const each = raw.type === "array" && refName(raw.items);
  return each ? ["list of ", link(each)] : [typeWords(document, raw)];
}

const link = (name) => el("a", { href: `#schema-${encodeURIComponent(name)}` }, name);

/** What a schema says about itself, and its bounds. */
export function describe(schema) {
  const bounds = BOUNDS.filter(([key]) => schema[key] !== undefined).map(([key, what]) => `${what} ${plain(schema[key])}`);
  const text = [schema.description, bounds.join(", ")].filter(Boolean).join(" – ");
  return text ? [" ", ...prose(text, false)] : [];
}

const plain = (value) => (typeof value === "string" ? value : JSON.stringify(value));
