// Problems where they belong: beside the field that the server names, or below the form.

import { setText } from "./dom.js";

/** Shows what is wrong. The field may be a path such as `overrides[0].burst`. */
export function showProblem(form, problem) {
  const named = String(problem.field ?? "").split(".").at(-1).replace(/\[\d+\]$/, "");
  const own = named && errorOf(form, named);
  const place = own || errorOf(form, "");
  const words = [problem.detail ?? problem.title ?? "refused"];
  if (!own && problem.field) words.unshift(`${problem.field}:`);
  if (problem.rule) words.push(`(${problem.rule})`);
  if (problem.advice) words.push(`– ${problem.advice}`);
  setText(place, words.join(" "));
  place.hidden = false;
  if (own) markField(form, named, place);
}

/** Takes away what was shown. */
export function clearProblem(form) {
  for (const place of form.querySelectorAll("[data-error-for]")) {
    place.hidden = true;
    place.textContent = "";
  }
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-describedby");
  }
}

/** Whether every field that must be filled is; says so at the first that is not. */
export function isFilled(form) {
  const empty = [...form.elements].find((field) => field.required && !field.value.trim());
  const broken = empty ?? [...form.elements].find((field) => field.validity?.badInput);
  if (!broken) return true;
  const detail = empty ? "fill this in" : "this is not a number or a time";
  showProblem(form, { field: broken.name, detail });
  return false;
}

/**
 * Ids go into paths, where these two mean something else and cannot be written otherwise. `command`
 * is what does the same without a browser.
 */
export function isAddressable(form, id, command) {
  if (id !== "." && id !== "..") return true;
  showProblem(form, { field: "id", detail: `\`${id}\` cannot be part of an address: use \`${command}\`` });
  return false;
}

const errorOf = (form, name) => form.querySelector(`[data-error-for="${CSS.escape(name)}"]`);

// `form.id` would be the field that is called so.
function markField(form, name, place) {
  const field = form.elements[name];
  if (!field) return;
  place.id ||= `${form.getAttribute("id")}-${name}-error`;
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", place.id);
  field.focus();
}
