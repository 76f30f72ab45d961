// Who is asking: the token of this tab, and requests that carry it.

import { byId, setText } from "./dom.js";
import { clearProblem, showProblem } from "./forms.js";

const KEY = "ratekeeper-token";
const REQUEST_MS_MAX = 10_000;
const SIGN_IN = "Sign in at the top of this page with a token";
const NO_TOKEN = "If the server has none, add a line `NAME admin TOKEN` to a file, name the file in "
  + "the setting http.tokens, and restart; or use `ratekeeper override` on the server's own machine.";

let token = remembered();
const listeners = [];

/** The headers that every request of the page has. */
export const headers = () => (token ? { Authorization: `Bearer ${token}` } : {});

/** Calls back when somebody signs in or out. */
export const onToken = (listener) => listeners.push(listener);

/**
 * Sends a request. Never throws: the answer is `{ ok: true, data }`, or `{ ok: false, status,
 * problem }`, where a server that cannot be reached is a problem with the status 0.
 */
export async function ask(path, { method = "GET", body } = {}) {
  const sent = { method, headers: headers(), cache: "no-store" };
  sent.signal = AbortSignal.timeout(REQUEST_MS_MAX);
  if (body !== undefined) {
    sent.headers["Content-Type"] = "application/json";
    sent.body = JSON.stringify(body);
  }
  try {
    const response = await fetch(path, sent);
    if (response.ok) return { ok: true, data: await response.json() };
    return { ok: false, status: response.status, problem: await problemOf(response) };
  } catch (error) {
    const detail = error.name === "TimeoutError"
      ? `no answer within ${REQUEST_MS_MAX / 1000} seconds: try again`
      : "the server cannot be reached: is it running?";
    return { ok: false, status: 0, problem: { title: "No answer", detail } };
  }
}

/** The problem that a response carries, or the best that can be said without one. */
export async function problemOf(response) {
  try {
    return withAdvice(await response.json(), response.status);
  } catch {
    const detail = `the server answered ${response.status} ${response.statusText}`.trim();
    return withAdvice({ title: "Refused", detail }, response.status);
  }
}

/** What is missing when a request was refused, in words that say what to do. */
function withAdvice(problem, status) {
  if (status !== 401 && status !== 403) return problem;
  const role = status === 403 && token ? "whose role allows this (to change overrides: admin)" : "";
  return { ...problem, advice: `${SIGN_IN} ${role}`.trim() + `. ${NO_TOKEN}`, field: undefined };
}

/** Makes the sign-in form work. */
export function setUpSignIn() {
  const form = byId("token-form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    signIn(form);
  });
  byId("token-forget").addEventListener("click", () => replaceToken(null));
  byId("token-box").addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    byId("token-box").open = false;
    byId("token-box").firstElementChild.focus();
  });
  showToken();
}

/** Opens the sign-in form, because nothing can be shown without it. */
export function askForToken() {
  const note = token
    ? "The server does not take this token, or its role may not read. Try another one."
    : "This server shows itself only to who has a token.";
  setText(byId("token-note"), note);
  byId("token-box").open = true;
}

function signIn(form) {
  clearProblem(form);
  const written = form.elements.token.value.trim();
  // Anything else cannot be in a header.
  if (!/^[\x21-\x7e]+$/.test(written)) {
    const detail = "a token is one word of letters, digits and signs";
    showProblem(form, { field: "token", detail });
    return;
  }
  form.reset();
  byId("token-box").open = false;
  replaceToken(written);
}

function replaceToken(fresh) {
  token = fresh;
  try {
    if (fresh) sessionStorage.setItem(KEY, fresh);
    else sessionStorage.removeItem(KEY);
  } catch {
    // Without storage the token lasts until the page is loaded again.
  }
  showToken();
  listeners.forEach((listener) => listener());
}

function showToken() {
  setText(byId("token-summary"), token ? "Signed in" : "Sign in");
  byId("token-forget").hidden = !token;
}

function remembered() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}
