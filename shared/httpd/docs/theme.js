"use strict";

// Applies the selected colours before the page is drawn. Without a selection, the page follows the system.
{
  const key = "svc-docs-theme";
  const root = document.documentElement;
  const storage = (access) => {
    try {
      return access(window.localStorage);
    } catch {
      return null; // local storage can be disabled; the selection is then lost with the page
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
