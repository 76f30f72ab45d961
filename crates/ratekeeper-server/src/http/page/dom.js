// The few things the page does to the document, each without touching what has not changed:
// a selection, a focused button and a screen reader all survive the next second.

export const byId = (id) => document.getElementById(id);

/** An element with attributes and children; text is always text, never markup. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** A name in capitals and small letters, which may be broken before a capital and not elsewhere. */
export function breakable(name) {
  const words = name.split(/(?<=[a-z0-9])(?=[A-Z])/);
  return words.flatMap((word, index) => (index === 0 ? [word] : [el("wbr"), word]));
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  const text = String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

/** Makes the children of `parent` those of `items`, in their order, keeping the ones it has. */
export function keyed(parent, items, keyOf, make, fill) {
  // Two items may have the same key, as ids that were cut do: then only one of them is kept.
  const held = parent.contains(document.activeElement) ? document.activeElement : null;
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let node = old.get(key);
    old.delete(key);
    if (!node) {
      node = make(item);
      node.dataset.key = key;
    }
    fill(node, item);
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
  }
  while (place) {
    const gone = place;
    place = place.nextElementSibling;
    gone.remove();
  }
  // Moving an element takes the focus away from it.
  if (held?.isConnected && document.activeElement !== held) held.focus({ preventScroll: true });
}

/**
 * A table whose columns are `{ label, text(item) }` or `{ label, fill(cell, item) }`, the first
 * of them the head of the row. Roles are spelt out, because a narrow screen stacks the cells.
 */
export class Table {
  constructor(node, caption, columns) {
    this.columns = columns;
    this.note = el("span", { class: "hint" });
    this.body = el("tbody", { role: "rowgroup" });
    const heads = columns.map((column) => {
      const attributes = { scope: "col", role: "columnheader", class: column.number && "number" };
      return el("th", attributes, column.label);
    });
    const head = el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...heads));
    node.setAttribute("role", "table");
    node.replaceChildren(el("caption", {}, caption, " ", this.note), head, this.body);
  }

  show(items, keyOf, mark = () => {}) {
    const make = (item) => {
      const row = el("tr", { role: "row" }, ...this.columns.map(cell));
      mark(row, item);
      return row;
    };
    keyed(this.body, items, keyOf, make, (row, item) => this.#fill(row, item));
  }

  say(note) {
    setText(this.note, note);
  }

  #fill(row, item) {
    this.columns.forEach((column, index) => {
      const target = row.children[index];
      if (column.fill) column.fill(target, item);
      else setText(target, column.text(item));
    });
  }
}

function cell(column, index) {
  const attributes = { "data-label": column.label, class: column.number && "number" };
  if (index === 0) return el("th", { ...attributes, scope: "row", role: "rowheader" });
  return el("td", { ...attributes, role: "cell" });
}

/** Fills a `<dl>` with pairs of a name and what it is; keeps those that stay. */
export function facts(list, pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined);
  const make = () => el("div", {}, el("dt"), el("dd"));
  keyed(list, shown, ([name]) => name, make, (node, [name, value]) => {
    setText(node.firstElementChild, name);
    if (value instanceof Node) node.lastElementChild.replaceChildren(value);
    else setText(node.lastElementChild, String(value));
  });
}
