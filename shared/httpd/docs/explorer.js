// Shows what this server can do, and calls it. Every address is relative to the
// page, so that it also works behind a path prefix.
import { Credentials } from "./credentials.js";
import { complete, parts } from "./parts.js";

const find = (id) => document.getElementById(id);

async function load() {
  const address = new URL("openapi.json", document.baseURI);
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address.pathname} answered ${answer.status}`);
  return answer.json();
}

// unfilled moves the example of a parameter that may be left out into its text:
// Swagger UI would send it.
function unfilled({ paths, components = {} }) {
  const named = (schema) => (schema?.$ref ? components.schemas?.[schema.$ref.split("/").pop()] : schema);
  const operations = Object.values(paths).flatMap(Object.values);
  for (const parameter of [components.parameters ?? {}, ...operations.map((o) => o.parameters ?? [])].flatMap(Object.values)) {
    const { example: common, ...schema } = named(parameter.schema) ?? {};
    const example = parameter.example ?? common;
    if (parameter.required || !parameter.schema || example === undefined) continue;
    Object.assign(parameter, { schema, example: undefined });
    parameter.description = `${parameter.description ?? ""} Example: \`${example}\`.`;
  }
}

function introduce({ info, servers: [server] }) {
  document.title = info.title;
  find("title").textContent = info.title;
  for (const [id, text] of [["version", info.version], ["server", server.url]]) {
    find(id).textContent = text;
    find(id).closest("div").hidden = false;
  }
}

// follow opens and shows what a link within the page names; nothing, when there
// is no such operation. Swagger UI does that only for the address it starts with.
function follow(ui) {
  const hash = readableHash();
  if (!hash.startsWith("#/")) return;
  ui.layoutActions.parseDeepLinkHash(hash);
  const id = `operations-${hash.slice(2).replaceAll(" ", "_").replace("/", "-")}`;
  window.requestAnimationFrame(() => find(id)?.scrollIntoView());
}

// readableHash is the address's fragment; one that can't be decoded is taken
// away, since Swagger UI would stumble over it.
function readableHash() {
  try {
    return decodeURIComponent(window.location.hash);
  } catch {
    window.history.replaceState(null, "", window.location.pathname);
    return "";
  }
}

function explore(spec) {
  // "Try it out" calls the server that shows the page.
  spec.servers = [{ url: new URL(".", document.baseURI).href.replace(/\/$/, "") }];
  unfilled(spec);
  introduce(spec);
  readableHash();
  new MutationObserver(complete).observe(find("explorer"), { childList: true, subtree: true });
  let credentials;
  const ui = window.SwaggerUIBundle({
    spec,
    dom_id: "#explorer",
    deepLinking: true,
    filter: true,
    displayRequestDuration: true,
    defaultModelsExpandDepth: 0,
    tryItOutEnabled: true,
    validatorUrl: null,
    persistAuthorization: false,
    presets: [window.SwaggerUIBundle.presets.apis],
    plugins: [parts((names) => credentials.ask(names))],
    layout: "Page",
    responseInterceptor: (answer) => {
      find("said").textContent = `The answer is ${answer.status}.`;
      return answer;
    },
  });
  window.addEventListener("hashchange", () => follow(ui));
  credentials = new Credentials(spec.components?.securitySchemes ?? {}, `svc-docs-credentials ${window.location.pathname}`, (values, removed) => {
    if (removed.length > 0) ui.authActions.logout(removed);
    for (const [name, value] of Object.entries(values)) ui.preauthorizeApiKey(name, value);
  });
}

load().then(explore).catch((error) => {
  const note = document.createElement("p");
  note.className = "notice";
  note.textContent = `The API description could not be shown: ${error.message}`;
  find("explorer").replaceChildren(note);
});
