// What operations require, from the document.

const methods = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

// operationsOf returns all operations as {path, method, operation}.
export function operationsOf({ paths }) {
  return Object.entries(paths).flatMap(([path, item]) =>
    methods.filter((method) => item[method]).map((method) => ({ path, method, operation: item[method] })));
}

// acceptedSchemes returns the names of the schemes, each of which is enough for the operation.
export function acceptedSchemes(spec, operation) {
  return (operation.security ?? spec.security ?? []).flatMap(Object.keys);
}

// schemesByUse returns the names of all schemes, first the one that most operations accept.
export function schemesByUse(spec) {
  const uses = new Map(Object.keys(spec.components?.securitySchemes ?? {}).map((name) => [name, 0]));
  for (const { operation } of operationsOf(spec)) {
    for (const name of acceptedSchemes(spec, operation)) uses.set(name, uses.get(name) + 1);
  }
  return [...uses].sort(([, a], [, b]) => b - a).map(([name]) => name);
}

// isHeader reports whether this page can send the credential. Credentials in URLs are only for other clients, because URLs
// are logged and shared.
export function isHeader(scheme) {
  return (scheme.type === "apiKey" && scheme.in === "header") || (scheme.type === "http" && scheme.scheme === "bearer");
}

// title splits a name into words: "organizationKey" becomes "Organization key".
export function title(name) {
  const words = name.replace(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return words[0].toUpperCase() + words.slice(1);
}
