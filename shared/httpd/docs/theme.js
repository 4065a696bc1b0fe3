"use strict";

// Puts the chosen colours on before anything is painted. Nothing chosen follows the system.
{
  const key = "svc-docs-theme";
  const root = document.documentElement;
  const storage = (work) => {
    try {
      return work(window.localStorage);
    } catch {
      return null; // a browser may forbid it: then the choice holds until the page is left
    }
  };
  const apply = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  apply(storage((s) => s.getItem(key)));
  document.addEventListener("DOMContentLoaded", () => {
    const choice = document.getElementById("theme");
    choice.value = root.dataset.theme ?? "";
    choice.addEventListener("change", () => {
      apply(choice.value);
      storage((s) => (choice.value ? s.setItem(key, choice.value) : s.removeItem(key)));
    });
  });
}
