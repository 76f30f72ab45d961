// Examples from an OpenAPI document: those it has, or ones made from its schemas.

import { refName, resolve } from "./schema.js";

/** How many schemas an example goes into. */
const DEPTH_MAX = 12;
const BY_TYPE = { string: "..", integer: 1, number: 1, boolean: false, null: null };

/** A value that a schema allows: its own example, or one put together from its parts. */
export function exampleOf(document, raw, inside = []) {
  const name = refName(raw);
  // A schema that holds itself ends here: lists of it are empty, and fields of it are left out.
  if (inside.length > DEPTH_MAX || (name && inside.includes(name))) return undefined;
  return made(document, resolve(document, raw), [...inside, name]);
}

function made(document, schema, inside) {
  if (schema.example !== undefined) return schema.example;
  if (schema.examples?.length > 0) return schema.examples[0];
  if (schema.const !== undefined) return schema.const;
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  const choice = (schema.oneOf ?? schema.anyOf)?.[0];
  if (choice) return exampleOf(document, choice, inside);
  if (schema.allOf) return Object.assign({}, ...schema.allOf.map((part) => exampleOf(document, part, inside)));
  return fromType(document, schema, inside);
}

function fromType(document, schema, inside) {
  const [type] = [schema.type ?? (schema.properties ? "object" : "null")].flat();
  if (type === "array") return [exampleOf(document, schema.items ?? {}, inside)].filter((item) => item !== undefined);
  if (type !== "object") return BY_TYPE[type] ?? null;
  const parts = Object.entries(schema.properties ?? {}).map(([key, part]) => [key, exampleOf(document, part, inside)]);
  return Object.fromEntries(parts);
}

/** A command that asks for an operation, to be copied into a shell. */
export function curlLine(document, operation, origin) {
  const { method, path, shared = [] } = operation;
  const all = [...shared, ...(operation.parameters ?? [])].map((parameter) => resolve(document, parameter));
  const parts = ["curl", "-sS"];
  if (method !== "get") parts.push("-X", method.toUpperCase());
  if (needsToken(document, operation)) parts.push('-H "Authorization: Bearer $TOKEN"');
  for (const parameter of all.filter(({ in: where, required }) => where === "header" && required)) {
    parts.push("-H", quoted(`${parameter.name}: ${valueOf(document, parameter)}`));
  }
  const body = bodyOf(document, operation);
  if (body !== undefined) parts.push("-H 'Content-Type: application/json'", "-d", quoted(JSON.stringify(body)));
  parts.push(quoted(origin + filled(document, path, all) + query(document, all)));
  return parts.join(" ");
}

/** Whether it is not for everybody; with no token configured the header does no harm. */
function needsToken(document, operation) {
  const security = operation.security ?? document.security ?? [];
  return security.some((scheme) => Object.keys(scheme).length > 0);
}

function bodyOf(document, operation) {
  const content = resolve(document, operation.requestBody ?? {}).content?.["application/json"];
  if (!content) return undefined;
  if (content.example !== undefined) return content.example;
  const [first] = Object.values(content.examples ?? {});
  if (first) return resolve(document, first).value;
  return content.schema ? exampleOf(document, content.schema) : undefined;
}

function filled(document, path, parameters) {
  return path.replace(/\{([^}]+)\}/g, (_, name) => {
    const parameter = parameters.find((one) => one.in === "path" && one.name === name);
    const value = parameter && exampleIn(document, parameter);
    const isTold = value !== undefined && value !== null && value !== BY_TYPE.string;
    return isTold ? encodeURIComponent(value) : name.toUpperCase();
  });
}

function query(document, parameters) {
  const wanted = parameters.filter(({ in: where, required }) => where === "query" && required);
  const words = wanted.map((parameter) => `${parameter.name}=${encodeURIComponent(valueOf(document, parameter))}`);
  return words.length > 0 ? `?${words.join("&")}` : "";
}

const valueOf = (document, parameter) => exampleIn(document, parameter) ?? "";

function exampleIn(document, { example, examples, schema }) {
  if (example !== undefined) return example;
  const [first] = Object.values(examples ?? {});
  return first ? resolve(document, first).value : exampleOf(document, schema ?? {});
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
