// The first requests that a reader sends, as command lines with the credentials of the reader.
import { markUpCode } from "./code.js";
import { acceptedSchemes, isHeader, operationsOf } from "./security.js";

// QuickStart shows the requests of x-quick-start of the document.
export class QuickStart {
  #requests;
  #list = document.querySelector("#start ol");

  constructor(spec) {
    const operations = operationsOf(spec);
    this.#requests = (spec.info["x-quick-start"] ?? []).map(({ operationId, text }) => {
      const found = operations.find(({ operation }) => operation.operationId === operationId);
      return { ...found, text, spec };
    });
    document.getElementById("start").hidden = this.#requests.length === 0;
  }

  // show shows the requests with the credentials by scheme.
  show(values) {
    this.#list.replaceChildren(...this.#requests.map((request) => entry(request, commandLine(request, values))));
  }
}

function entry({ text, operation }, command) {
  const [item, explanation, link, code, copy] = ["li", "p", "a", "pre", "button"].map((name) => document.createElement(name));
  link.href = `#/${encodeURIComponent(operation.tags[0])}/${operation.operationId}`;
  link.textContent = operation.summary;
  explanation.append(link, ". ", ...markUpCode(text));
  code.textContent = command;
  code.tabIndex = 0; // it scrolls
  code.setAttribute("role", "group");
  code.setAttribute("aria-label", `Command line: ${operation.summary}`);
  copy.type = "button";
  copy.textContent = "Copy";
  copy.setAttribute("aria-label", `Copy the command line: ${operation.summary}`);
  copy.hidden = !navigator.clipboard; // only on secure origins
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(command);
    copy.textContent = "Copied";
  });
  item.append(explanation, code, copy);
  return item;
}

function commandLine({ spec, path, method, operation }, values) {
  const target = path.replace(/\{(\w+)\}/g, (_, name) => constant(name));
  const parts = [`curl ${method === "get" ? "" : `-X ${method.toUpperCase()} `}${quote(spec.servers[0].url + target)}`];
  const schemes = spec.components?.securitySchemes ?? {};
  const accepted = acceptedSchemes(spec, operation).filter((name) => isHeader(schemes[name]));
  const chosen = accepted.find((name) => values[name]) ?? accepted[0];
  if (chosen) parts.push(`-H ${quote(header(chosen, schemes[chosen], values[chosen]))}`);
  const content = operation.requestBody?.content["application/json"];
  if (content) {
    const example = content.example ?? Object.values(content.examples ?? {})[0]?.value;
    parts.push("-H 'Content-Type: application/json'", `-d ${quote(JSON.stringify(example))}`);
  }
  return parts.join(" \\\n  ");
}

function header(name, scheme, value) {
  const text = value ?? `YOUR_${constant(name)}`;
  return scheme.type === "http" ? `Authorization: Bearer ${text}` : `${scheme.name}: ${text}`;
}

// constant returns a name in upper case: "sessionId" becomes "SESSION_ID".
function constant(name) {
  return name.replace(/(?<=[a-z])[A-Z]/g, "_$&").toUpperCase();
}

// quote returns a text as one argument of a POSIX shell.
function quote(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
