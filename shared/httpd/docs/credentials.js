const find = (id) => document.getElementById(`credentials-${id}`);

const nowhere = "Kept in the memory of this tab only: reloading or leaving the page forgets them.";
const here = "Kept unencrypted in this browser's local storage, for this page, until you forget them. Not for a device that others use.";

// Credentials is what the visitor wants calls to carry, and the dialog that asks
// for it. Values stay in memory unless the visitor wants them remembered.
export class Credentials {
  #dialog = document.getElementById("credentials");
  #button = find("button");
  #remember = find("remember");
  #fields = new Map(); // scheme -> its input
  #values = {};
  #key; // in local storage, of this page alone: several workers may share an origin
  #onChange;

  // schemes are the document's security schemes. onChange(values, removed) gets
  // the value of each scheme that has one, and the schemes whose value was removed.
  constructor(schemes, key, onChange) {
    this.#key = key;
    this.#onChange = onChange;
    const cookies = [];
    for (const [name, scheme] of Object.entries(schemes)) {
      if (scheme.in === "cookie") cookies.push(title(name));
      else if (isHeader(scheme)) this.#addField(name, scheme);
    }
    find("cookies").hidden = cookies.length === 0;
    find("cookies").textContent = `${cookies.join(", ")}: your browser sends cookies by itself, once this server has set them. There is nothing to enter.`;
    this.#button.hidden = false;
    this.#button.addEventListener("click", () => this.ask());
    this.#remember.addEventListener("change", () => this.#explain());
    this.#dialog.querySelector("form").addEventListener("submit", () => this.#use());
    find("forget").addEventListener("click", () => this.#forget());
    find("cancel").addEventListener("click", () => this.#dialog.close());
    this.#dialog.addEventListener("close", () => this.#clear());
    this.#recall();
  }

  // ask opens the dialog, at the first of these schemes that can be entered.
  ask(names = []) {
    for (const [name, input] of this.#fields) input.value = this.#values[name] ?? "";
    this.#remember.checked = this.#stored() !== null;
    this.#explain();
    this.#dialog.showModal();
    const wanted = names.find((name) => this.#fields.has(name)) ?? this.#fields.keys().next().value;
    this.#fields.get(wanted)?.focus();
  }

  #addField(name, scheme) {
    const field = document.getElementById("credentials-field").content.cloneNode(true);
    const [label, about, input, show] = ["label", "p", "input", "button"].map((part) => field.querySelector(part));
    input.id = `credential-${name}`;
    input.name = name;
    label.htmlFor = input.id;
    label.textContent = title(name);
    const header = document.createElement("code");
    header.textContent = scheme.type === "http" ? "Authorization: Bearer" : scheme.name;
    about.id = `${input.id}-about`;
    about.append(header, " ", ...prose(scheme.description ?? ""));
    input.setAttribute("aria-describedby", about.id);
    show.setAttribute("aria-label", `Show ${title(name)}`);
    show.addEventListener("click", () => {
      const masked = input.classList.toggle("masked");
      show.setAttribute("aria-pressed", String(!masked));
    });
    this.#fields.set(name, input);
    find("fields").append(field);
  }

  // #use takes what was entered. It doesn't wait for the dialog's "close", which
  // comes later, and may come after a click on what needs the credentials.
  #use() {
    const entered = [...this.#fields].map(([name, input]) => [name, input.value.trim()]).filter(([, value]) => value);
    this.#set(Object.fromEntries(entered));
    this.#store(this.#remember.checked && entered.length > 0 ? this.#values : null);
  }

  #forget() {
    this.#set({});
    this.#store(null);
    this.#dialog.close();
  }

  // #clear empties the closed dialog: what isn't used doesn't linger in the page.
  #clear() {
    if (this.#dialog.open) return; // again, meanwhile
    for (const input of this.#fields.values()) input.value = "";
  }

  #set(values) {
    const removed = Object.keys(this.#values).filter((name) => !(name in values));
    this.#values = values;
    this.#onChange(values, removed);
    const count = Object.keys(values).length;
    this.#button.dataset.state = count > 0 ? "given" : "none";
    find("count").textContent = count > 0 ? `: ${count} in use` : "";
  }

  #explain() {
    find("where").textContent = this.#remember.checked ? here : nowhere;
  }

  #recall() {
    let kept = {};
    try {
      kept = JSON.parse(this.#stored() ?? "{}");
    } catch {
      this.#store(null);
    }
    const known = Object.entries(kept).filter(([name, value]) => this.#fields.has(name) && typeof value === "string");
    this.#set(Object.fromEntries(known));
  }

  #stored() {
    try {
      return window.localStorage.getItem(this.#key);
    } catch {
      return null; // a browser may forbid it
    }
  }

  #store(values) {
    try {
      if (values) window.localStorage.setItem(this.#key, JSON.stringify(values));
      else window.localStorage.removeItem(this.#key);
    } catch (error) {
      if (values) find("count").textContent += ", not remembered";
      console.warn("credentials are not remembered:", error.message);
    }
  }
}

// prose is a description whose `quoted` words are code.
function prose(text) {
  return text.split("`").map((part, i) => {
    if (i % 2 === 0) return part;
    const code = document.createElement("code");
    code.textContent = part;
    return code;
  });
}

// isHeader reports whether this page can send the credential. Credentials in URLs are
// only for other clients, because URLs are logged and shared.
function isHeader(scheme) {
  return (scheme.type === "apiKey" && scheme.in === "header") || (scheme.type === "http" && scheme.scheme === "bearer");
}

// title makes words of a name: "organizationKey" is "Organization key".
function title(name) {
  const words = name.replace(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return words[0].toUpperCase() + words.slice(1);
}
