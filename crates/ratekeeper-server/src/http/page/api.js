// The API page: openapi.json, for people. What tests and scripts may rely on:
//
//   #api-reading[data-state=loading|ready|problem], #api-title, #api-about, #api-contents
//   article.operation[data-method][data-path] with the id `op-METHOD-PATH`, .curl pre, .curl button
//   article.schema with the id `schema-NAME`; article.problem with the slug of the problem as id

import { byId, el, setText } from "./dom.js";
import { curlLine, exampleOf } from "./example.js";
import { describe, prose, resolve, schemaTree, typeWords } from "./schema.js";

const PATH = "/openapi.json";
const METHODS = ["get", "put", "post", "delete", "patch", "head", "options"];
const COPIED_MS = 2000;

const reading = byId("api-reading");

async function start() {
  try {
    const response = await fetch(PATH);
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    show(await response.json());
    reading.dataset.state = "ready";
    jump();
  } catch (error) {
    reading.dataset.state = "problem";
    setText(byId("api-about"), `${PATH} cannot be shown: ${error.message}. Is the server running? Load the page again.`);
  }
}

function show(document) {
  const { title = "The API", version = "", description } = document.info ?? {};
  setText(byId("api-title"), title);
  setText(byId("foot"), `${title} ${version}`);
  byId("api-about").replaceChildren(...prose(description ?? ""));
  const groups = groupsOf(document);
  for (const [name, operations] of groups) reading.append(group(document, name, operations));
  const schemas = Object.entries(document.components?.schemas ?? {});
  const problems = document["x-problems"] ?? [];
  const cards = schemas.map(([name, schema]) => schemaCard(document, name, schema));
  if (cards.length > 0) reading.append(section("Schemas", cards));
  if (problems.length > 0) reading.append(section("Problems", problems.map(problemCard)));
  contents(groups, schemas, problems);
}

/** What was linked to is here only now. */
function jump() {
  const target = location.hash && byId(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  // Setting the hash again makes the browser see the target.
  const { hash } = location;
  history.replaceState(null, "", " ");
  location.hash = hash;
}

/** The operations by their first tag, in the order of the document. */
function groupsOf(document) {
  const groups = new Map((document.tags ?? []).map(({ name }) => [name, []]));
  for (const [path, item] of Object.entries(document.paths ?? {})) {
    for (const method of METHODS.filter((method) => item[method])) {
      const operation = { ...item[method], method, path, shared: item.parameters ?? [] };
      const name = operation.tags?.[0] ?? "Routes";
      groups.set(name, [...(groups.get(name) ?? []), operation]);
    }
  }
  return new Map([...groups].filter(([, operations]) => operations.length > 0));
}

function contents(groups, schemas, problems) {
  const lists = [...groups].map(([name, operations]) => list(name, operations.map((operation) => {
    return [anchor(operation), `${operation.method.toUpperCase()} ${operation.path}`];
  })));
  if (schemas.length > 0) lists.push(list("Schemas", schemas.map(([name]) => [`schema-${name}`, name])));
  if (problems.length > 0) lists.push(list("Problems", problems.map(({ slug }) => [slug, slug])));
  byId("api-contents").append(...lists.flat());
}

function list(name, links) {
  const items = links.map(([id, text]) => el("li", {}, el("a", { href: `#${encodeURIComponent(id)}` }, text)));
  return [el("h2", {}, name), el("ul", {}, ...items)];
}

const anchor = ({ method, path }) => `op-${method}${path.replace(/[^A-Za-z0-9]+/g, "-")}`.replace(/-$/, "");

function section(title, cards, about) {
  return el("section", {}, el("h2", {}, title), ...prose(about ?? ""), ...cards);
}

function group(document, name, operations) {
  const about = document.tags?.find((tag) => tag.name === name)?.description;
  return section(name, operations.map((operation) => operationCard(document, operation)), about);
}

function operationCard(document, operation) {
  const { method, path, summary, description } = operation;
  const badge = el("span", { class: "method", "data-method": method }, method.toUpperCase());
  const route = el("h3", { class: "route" }, badge, el("code", {}, path));
  const role = operation["x-role"] ? el("p", { class: "hint" }, `Role: ${operation["x-role"]}`) : null;
  return el("article", { class: "operation card", id: anchor(operation), "data-method": method, "data-path": path },
    route,
    summary ? el("p", {}, el("b", {}, ...prose(summary, false))) : null,
    ...prose(description ?? ""),
    role,
    ...parameters(document, operation),
    ...requestBody(document, operation),
    ...responses(document, operation),
    ...curl(document, operation));
}

function parameters(document, { parameters: own = [], shared }) {
  const all = [...shared, ...own].map((parameter) => resolve(document, parameter));
  if (all.length === 0) return [];
  const rows = all.map(({ name, in: where, required, description, schema = {}, example }) => {
    const such = example !== undefined && `such as ${example}`;
    const marks = [typeWords(document, schema), `in the ${where}`, required && "required", such];
    return el("li", {}, el("code", {}, name), " ",
      el("span", { class: "hint" }, marks.filter(Boolean).join(", ")),
      ...describe(resolve(document, schema)),
      ...prose(description ?? ""));
  });
  return [el("h4", {}, "Parameters"), el("ul", { class: "tree" }, ...rows)];
}

function requestBody(document, operation) {
  const body = operation.requestBody && resolve(document, operation.requestBody);
  return body ? [el("h4", {}, "Body"), ...prose(body.description ?? ""), ...media(document, body.content)] : [];
}

function responses(document, operation) {
  const shown = Object.entries(operation.responses ?? {}).map(([status, raw]) => {
    const response = resolve(document, raw);
    const summary = el("summary", {}, el("code", {}, status), " ", ...prose(response.description ?? "", false));
    const inside = [...headersOf(document, response.headers), ...media(document, response.content)];
    return inside.length > 0 ? el("details", {}, summary, ...inside) : el("p", {}, ...summary.childNodes);
  });
  return shown.length > 0 ? [el("h4", {}, "Answers"), ...shown] : [];
}

function headersOf(document, headers = {}) {
  const rows = Object.entries(headers).map(([name, raw]) => {
    return el("li", {}, el("code", {}, name), " ", ...prose(resolve(document, raw).description ?? "", false));
  });
  return rows.length > 0 ? [el("ul", { class: "tree" }, ...rows)] : [];
}

function media(document, content = {}) {
  return Object.entries(content).flatMap(([type, { schema, example, examples }]) => {
    const named = Object.entries(examples ?? {}).map(([name, raw]) => {
      const { summary = name, value } = resolve(document, raw);
      return [summary, value];
    });
    const shown = example === undefined ? named : [["Example", example], ...named];
    return [
      el("p", { class: "hint" }, type),
      schema ? schemaTree(document, schema) : null,
      ...shown.flatMap(([name, value]) => [el("p", { class: "hint" }, name), code(value)]),
    ].filter(Boolean);
  });
}

const code = (value) => el("pre", { tabindex: "0" }, typeof value === "string" ? value : JSON.stringify(value, null, 2));

function curl(document, operation) {
  const text = curlLine(document, operation, location.origin);
  const button = el("button", { type: "button", class: "quiet" }, "Copy");
  const line = el("pre", { tabindex: "0", "aria-label": "A curl command" }, text);
  button.addEventListener("click", () => copy(button, line));
  return [el("h4", {}, "Try it"), el("div", { class: "curl" }, line, button)];
}

async function copy(button, line) {
  try {
    await navigator.clipboard.writeText(line.textContent);
    button.textContent = "Copied";
  } catch {
    // Without https a page may not write there: then it is selected, to be copied by hand.
    getSelection().selectAllChildren(line);
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), COPIED_MS);
}

function schemaCard(document, name, schema) {
  const example = exampleOf(document, schema);
  const isTold = example !== undefined && example !== null;
  return el("article", { class: "schema card", id: `schema-${name}` },
    el("h3", {}, name),
    schemaTree(document, schema, name),
    isTold ? el("p", { class: "hint" }, "Looks like") : null,
    isTold ? code(example) : null);
}

function problemCard({ slug, title, status, detail }) {
  return el("article", { class: "problem card", id: slug },
    el("h3", {}, title ?? slug),
    el("p", { class: "hint" }, el("code", {}, `/api#${slug}`), status ? ` status ${status}` : ""),
    ...prose(detail ?? ""));
}

start();
