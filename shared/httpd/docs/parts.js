// The parts of the page that Swagger UI would make otherwise.
import { colour } from "./code.js";

// parts is a plugin of Swagger UI. ask(names) opens the dialog for credentials.
export const parts = (ask) => ({ React }) => {
  const make = React.createElement;
  return {
    components: { Page: (props) => page(make, props) },
    fn: { opsFilter: fitting },
    statePlugins: {
      auth: {
        wrapActions: {
          // What Swagger UI's own dialog would be opened for.
          showDefinitions: () => (definitions) => {
            if (definitions) ask(definitions.toJS().flatMap(Object.keys));
            return { type: "credentials_asked" };
          },
        },
      },
    },
    wrapComponents: {
      FilterContainer: () => (props) => filter(make, props),
      SyntaxHighlighter: () => (props) => code(make, props),
      CopyToClipboardBtn: () => () => null, // the address bar has the operation's own link
      authorizeOperationBtn: () => (props) => lock(make, props),
      // An operation's title is a button already: the link inside would be a second.
      DeepLink: (Link) => (props) => make(Link, { ...props, enabled: false }),
    },
  };
};

// page is what stands below the head: the server and the credentials are there.
function page(make, { getComponent, specSelectors, layoutSelectors, fn }) {
  const part = (name) => make(getComponent(name, true), { key: name });
  const phrase = layoutSelectors.currentFilter();
  const none = typeof phrase === "string" && phrase && fn.opsFilter(specSelectors.taggedOperations(), phrase).size === 0;
  const operations = none ? make("p", { key: "none", className: "none" }, `No operation has “${phrase}” in it.`) : part("operations");
  const heading = make("h2", { className: "aside" }, "Operations");
  return make("div", { className: "swagger-ui" }, ["SvgAssets", "errors", "InfoContainer"].map(part), heading, part("FilterContainer"), operations, part("Models"));
}

// fitting keeps the operations that have every word of the phrase in what names
// them, or in their tag.
export function fitting(tagged, phrase) {
  const words = phrase.toLowerCase().split(/\s+/).filter(Boolean);
  return tagged
    .map((tag, name) => tag.update("operations", (operations) => operations.filter((o) => {
      const described = o.get("operation");
      const text = [name, o.get("method"), o.get("path"), described.get("operationId"), described.get("summary")].join(" ").toLowerCase();
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
  const pieces = colour(text, language).map(({ text, kind }, i) => (kind ? make("span", { key: i, className: `is-${kind}` }, text) : text));
  // It scrolls, so the keyboard has to reach it.
  return make("pre", { className, tabIndex: 0, role: "group", "aria-label": language === "bash" ? "Command line" : "Content" }, make("code", null, pieces));
}

function lock(make, { isAuthorized, onClick, getComponent }) {
  const label = isAuthorized ? "Credentials: given" : "Credentials: none given";
  const press = (event) => {
    event.stopPropagation();
    onClick();
  };
  return make("button", { type: "button", className: "lock", "data-state": isAuthorized ? "given" : "none", "aria-label": label, title: label, onClick: press },
    make(getComponent(isAuthorized ? "LockAuthOperationIcon" : "UnlockAuthOperationIcon", true)));
}

// What Swagger UI leaves without a name, for those who hear the page.
const names = {
  ".copy-to-clipboard button": "Copy",
  ".body-param__text": "Request body",
  ".examples-select-element": "Example",
};

// complete names the fields of the page.
export function complete() {
  for (const [selector, name] of Object.entries(names)) {
    for (const part of document.querySelectorAll(selector)) part.setAttribute("aria-label", name);
  }
  for (const field of document.querySelectorAll("[data-param-name] :is(input, select, textarea)")) {
    field.setAttribute("aria-label", field.closest("[data-param-name]").dataset.paramName);
  }
}
