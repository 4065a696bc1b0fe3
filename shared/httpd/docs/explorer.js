"use strict";

// Swagger UI switches its colours by a class; follow the system's setting.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const followSystem = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followSystem);
followSystem();

// What Swagger UI leaves without a name, for those who hear the page.
const names = {
  "#servers": "Server",
  ".close-modal": "Close",
  ".body-param__text": "Request body",
  ".examples-select-element": "Example",
  ".modal-btn.authorize": "Authorize",
};

// complete names the parts of the page, and lets the keyboard scroll its code.
function complete() {
  for (const [selector, name] of Object.entries(names)) {
    for (const part of document.querySelectorAll(selector)) part.setAttribute("aria-label", name);
  }
  for (const field of document.querySelectorAll("[data-param-name] :is(input, select, textarea)")) {
    field.setAttribute("aria-label", field.closest("[data-param-name]").dataset.paramName);
  }
  for (const code of document.querySelectorAll("pre.microlight:not([tabindex])")) code.tabIndex = 0;
}

// An operation's title is a button already: the link inside would be a second.
const plainTitles = ({ React }) => ({
  wrapComponents: {
    DeepLink: (Link) => (props) => React.createElement(Link, { ...props, enabled: false }),
  },
});

// Every address is relative to this page, so that the explorer also works
// behind a path prefix. "Try it out" calls the server that shows the page.
async function explore() {
  const address = new URL("openapi.json", document.baseURI);
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address.pathname} answered ${answer.status}`);
  const spec = await answer.json();
  spec.servers = [{ url: new URL(".", address).href.replace(/\/$/, "") }];
  document.title = spec.info.title;
  new MutationObserver(complete).observe(document.getElementById("explorer"), { childList: true, subtree: true });
  window.SwaggerUIBundle({
    spec,
    dom_id: "#explorer",
    deepLinking: true,
    filter: true,
    displayRequestDuration: true,
    defaultModelsExpandDepth: 0,
    tryItOutEnabled: true,
    validatorUrl: null,
    presets: [window.SwaggerUIBundle.presets.apis],
    plugins: [plainTitles],
    layout: "BaseLayout",
  });
}

explore().catch((error) => {
  const note = document.createElement("p");
  note.className = "failure";
  note.textContent = `The API description could not be shown: ${error.message}`;
  document.getElementById("explorer").replaceChildren(note);
});
