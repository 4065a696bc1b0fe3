// Shows the operations of this server and executes them. All URLs are relative to the page, so that it also works behind a
// path prefix.
import { Credentials } from "./credentials.js";
import { addLabels, parts } from "./parts.js";
import { QuickStart } from "./quickstart.js";
import { acceptedSchemes, isHeader, schemesByUse } from "./security.js";

const find = (id) => document.getElementById(id);

async function load() {
  const url = new URL("openapi.json", document.baseURI);
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url.pathname} returned status ${response.status}`);
  return response.json();
}

// moveExamples moves the examples of optional parameters into their descriptions. Otherwise, Swagger UI would send them as
// values.
function moveExamples({ paths, components = {} }) {
  const resolve = (schema) => (schema?.$ref ? components.schemas?.[schema.$ref.split("/").pop()] : schema);
  const operations = Object.values(paths).flatMap(Object.values);
  for (const parameter of [components.parameters ?? {}, ...operations.map((o) => o.parameters ?? [])].flatMap(Object.values)) {
    const { example: common, ...schema } = resolve(parameter.schema) ?? {};
    const example = parameter.example ?? common;
    if (parameter.required || !parameter.schema || example === undefined) continue;
    Object.assign(parameter, { schema, example: undefined });
    parameter.description = `${parameter.description ?? ""} Example: \`${example}\`.`;
  }
}

function showInfo({ info, servers: [server] }) {
  document.title = info.title;
  find("title").textContent = info.title;
  for (const [id, text] of [["version", info.version], ["server", server.url]]) {
    find(id).textContent = text;
    find(id).closest("div").hidden = false;
  }
}

// openLinked opens the operation in the fragment of the URL, if it exists. Swagger UI does this only for its initial URL.
function openLinked(ui) {
  const hash = decodedHash();
  if (!hash.startsWith("#/")) return;
  ui.layoutActions.parseDeepLinkHash(hash);
  const id = `operations-${hash.slice(2).replaceAll(" ", "_").replace("/", "-")}`;
  window.requestAnimationFrame(() => find(id)?.scrollIntoView());
}

// decodedHash returns the decoded fragment of the URL. It removes an invalid fragment, because Swagger UI would fail.
function decodedHash() {
  try {
    return decodeURIComponent(window.location.hash);
  } catch {
    window.history.replaceState(null, "", window.location.pathname);
    return "";
  }
}

function start(spec) {
  // "Try it out" sends requests to the server of this page.
  spec.servers = [{ url: new URL(".", document.baseURI).href.replace(/\/$/, "") }];
  moveExamples(spec);
  showInfo(spec);
  decodedHash();
  new MutationObserver(addLabels).observe(find("explorer"), { childList: true, subtree: true });
  const schemes = spec.components?.securitySchemes ?? {};
  const quickStart = new QuickStart(spec);
  let credentials;
  let entered = {};
  // missing returns the schemes whose credential the operation accepts, if none of them is entered.
  const missing = (path, method) => {
    const accepted = acceptedSchemes(spec, spec.paths[path][method]);
    return accepted.some((name) => entered[name]) ? [] : accepted.map((name) => ({ name, isHeader: isHeader(schemes[name]), isCookie: schemes[name].in === "cookie" }));
  };
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
    plugins: [parts((names) => credentials.openDialog(names), missing)],
    layout: "Page",
    responseInterceptor: (response) => {
      find("response-status").textContent = `The response has status ${response.status}.`;
      return response;
    },
  });
  window.addEventListener("hashchange", () => openLinked(ui));
  const byUse = Object.fromEntries(schemesByUse(spec).map((name) => [name, schemes[name]]));
  credentials = new Credentials(byUse, `svc-docs-credentials ${window.location.pathname}`, (values, removed) => {
    entered = values;
    quickStart.show(values);
    if (removed.length > 0) ui.authActions.logout(removed);
    for (const [name, value] of Object.entries(values)) ui.preauthorizeApiKey(name, value);
  });
}

load().then(start).catch((error) => {
  const note = document.createElement("p");
  note.className = "notice";
  note.textContent = `The API description could not be shown: ${error.message}`;
  find("explorer").replaceChildren(note);
});
