"use strict";

// Swagger UI switches its colours by a class; follow the system's setting.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const followSystem = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followSystem);
followSystem();

// Every address is relative to this page, so that the explorer also works
// behind a path prefix. "Try it out" calls the server that shows the page.
async function explore() {
  const address = new URL("openapi.json", document.baseURI);
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address.pathname} answered ${answer.status}`);
  const spec = await answer.json();
  spec.servers = [{ url: new URL(".", address).href.replace(/\/$/, "") }];
  document.title = spec.info.title;
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
    layout: "BaseLayout",
  });
}

explore().catch((error) => {
  const note = document.createElement("p");
  note.className = "failure";
  note.textContent = `The API description could not be shown: ${error.message}`;
  document.getElementById("explorer").replaceChildren(note);
});
