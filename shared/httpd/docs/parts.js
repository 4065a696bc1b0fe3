// The parts of the page that replace those of Swagger UI.
import { tokenize } from "./code.js";
import { title } from "./security.js";

// parts returns a plugin of Swagger UI. openDialog(names) opens the dialog for credentials. missing(path, method) returns
// the schemes that an operation accepts, if no credential is entered for it.
export const parts = (openDialog, missing) => ({ React }) => {
  const make = React.createElement;
  return {
    components: { Page: (props) => page(make, props) },
    fn: { opsFilter: matchingOperations },
    statePlugins: {
      auth: {
        wrapActions: {
          // Replaces the dialog of Swagger UI.
          showDefinitions: () => (definitions) => {
            if (definitions) openDialog(definitions.toJS().flatMap(Object.keys));
            return { type: "credentials_asked" };
          },
        },
      },
    },
    wrapComponents: {
      FilterContainer: () => (props) => filter(make, props),
      SyntaxHighlighter: () => (props) => code(make, props),
      CopyToClipboardBtn: () => () => null, // the URL of an open operation is in the address bar
      execute: (Execute) => (props) => [make(Execute, { ...props, key: "execute" }), need(make, openDialog, missing(props.path, props.method))],
      authorizeOperationBtn: () => (props) => lock(make, props),
      // The title of an operation is a button, which must not contain a link.
      DeepLink: (Link) => (props) => make(Link, { ...props, enabled: false }),
    },
  };
};

// page returns the contents below the header. The header has the server and the credentials.
function page(make, { getComponent, specSelectors, layoutSelectors, fn }) {
  const part = (name) => make(getComponent(name, true), { key: name });
  const phrase = layoutSelectors.currentFilter();
  const none = typeof phrase === "string" && phrase && fn.opsFilter(specSelectors.taggedOperations(), phrase).size === 0;
  const operations = none ? make("p", { key: "none", className: "none" }, `No operation matches “${phrase}”.`) : part("operations");
  const heading = make("h2", { className: "aside" }, "Operations");
  return make("div", { className: "swagger-ui" }, ["SvgAssets", "errors", "InfoContainer"].map(part), heading, part("FilterContainer"), operations, part("Models"));
}

// matchingOperations returns the operations whose tag, method, path, id and summary contain all words of the phrase.
export function matchingOperations(tagged, phrase) {
  const words = phrase.toLowerCase().split(/\s+/).filter(Boolean);
  return tagged
    .map((tag, name) => tag.update("operations", (operations) => operations.filter((o) => {
      const operation = o.get("operation");
      const text = [name, o.get("method"), o.get("path"), operation.get("operationId"), operation.get("summary")].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    })))
    .filter((tag) => tag.get("operations").size > 0);
}

function filter(make, { layoutActions }) {
  return make("input", {
    type: "search", className: "find", "aria-label": "Find operations", placeholder: "Find operations",
    onChange: (event) => layoutActions.updateFilter(event.target.value),
  });
}

function code(make, { children, language, className }) {
  const text = String(children);
  const pieces = tokenize(text, language).map(({ text, kind }, i) => (kind ? make("span", { key: i, className: `is-${kind}` }, text) : text));
  // The element scrolls, so it must be focusable with the keyboard.
  return make("pre", { className, tabIndex: 0, role: "group", "aria-label": language === "bash" ? "Command line" : "Content" }, make("code", null, pieces));
}

// need says beside Execute which credential is missing.
function need(make, openDialog, schemes) {
  const fields = schemes.filter((s) => s.isHeader);
  if (fields.length === 0) return null;
  const [first] = fields;
  const others = fields.length > 1 ? ` or ${fields.length - 1} other${fields.length > 2 ? "s" : ""}` : "";
  const cookie = schemes.some((s) => s.isCookie) ? " Not needed if this browser is signed in." : "";
  return make("p", { key: "need", className: "need faint" }, "Requires a credential: ",
    make("button", { type: "button", onClick: () => openDialog(fields.map((s) => s.name)) }, `Enter ${title(first.name).toLowerCase()}`), `${others}.${cookie}`);
}

function lock(make, { isAuthorized, onClick, getComponent }) {
  const label = isAuthorized ? "Credentials: entered" : "Credentials: not entered";
  const press = (event) => {
    event.stopPropagation();
    onClick();
  };
  return make("button", { type: "button", className: "lock", "data-state": isAuthorized ? "given" : "none", "aria-label": label, title: label, onClick: press },
    make(getComponent(isAuthorized ? "LockAuthOperationIcon" : "UnlockAuthOperationIcon", true)));
}

// Labels for screen readers, which Swagger UI does not have.
const labels = {
  ".copy-to-clipboard button": "Copy",
  ".body-param__text": "Request body",
  ".examples-select-element": "Example",
};

// addLabels adds labels to the elements of the page.
export function addLabels() {
  for (const [selector, name] of Object.entries(labels)) {
    for (const part of document.querySelectorAll(selector)) part.setAttribute("aria-label", name);
  }
  for (const field of document.querySelectorAll("[data-param-name] :is(input, select, textarea)")) {
    field.setAttribute("aria-label", field.closest("[data-param-name]").dataset.paramName);
  }
}
