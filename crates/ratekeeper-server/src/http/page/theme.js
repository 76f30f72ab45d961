// Light or dark: what the system says, until somebody chooses. Not a module, so that it runs
// before the first paint and the page never flashes in the other theme.
(() => {
  const KEY = "ratekeeper-theme";
  const NAMES = { system: "Auto", dark: "Dark", light: "Light" };
  const NEXT = { system: "dark", dark: "light", light: "system" };
  const root = document.documentElement;

  // Storage can be forbidden; then the choice lasts as long as the page.
  function remembered() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  }

  function remember(theme) {
    try {
      if (theme === "system") localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, theme);
    } catch {
      // Nothing is lost but the memory of it.
    }
  }

  function apply(theme) {
    root.dataset.theme = theme;
    const button = document.getElementById("theme-toggle");
    if (!button) return;
    button.textContent = NAMES[theme];
    button.setAttribute("aria-label", `Theme: ${NAMES[theme]}`);
    button.title = "Light or dark";
  }

  const stored = remembered();
  apply(stored === "dark" || stored === "light" ? stored : "system");

  document.addEventListener("DOMContentLoaded", () => {
    apply(root.dataset.theme);
    document.getElementById("theme-toggle")?.addEventListener("click", () => {
      const theme = NEXT[root.dataset.theme];
      remember(theme);
      apply(theme);
    });
  });
})();
