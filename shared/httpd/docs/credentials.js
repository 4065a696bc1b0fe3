import { markUpCode } from "./code.js";
import { isHeader, title } from "./security.js";

const find = (id) => document.getElementById(`credentials-${id}`);

const inMemory = "Stored only in the memory of this tab, until you reload or leave the page.";
const inLocalStorage = "Stored unencrypted in this browser's local storage, for this page, until you select Forget all. Do not use this on a shared device.";

// Credentials manages the credentials of requests and the dialog to enter them. They are stored in memory only, unless the
// user selects to remember them.
export class Credentials {
  #dialog = document.getElementById("credentials");
  #button = find("button");
  #remember = find("remember");
  #fields = new Map(); // input elements by scheme
  #values = {};
  #key; // in local storage, unique to this page, because several workers can share an origin
  #onChange;

  // schemes are the security schemes of the document, the most used first. The fields of the others are under "More".
  // onChange(values, removed) gets the values by scheme, and the schemes
  // whose values were removed.
  constructor(schemes, key, onChange) {
    this.#key = key;
    this.#onChange = onChange;
    const cookies = [];
    for (const [name, scheme] of Object.entries(schemes)) {
      if (scheme.in === "cookie") cookies.push(title(name));
      else if (isHeader(scheme)) this.#addField(name, scheme);
    }
    find("more").hidden = this.#fields.size < 2;
    find("cookies").hidden = cookies.length === 0;
    find("cookies").textContent = `${cookies.join(", ")}: your browser sends cookies automatically after this server has set them.`;
    this.#button.hidden = false;
    this.#button.addEventListener("click", () => this.openDialog());
    this.#remember.addEventListener("change", () => this.#showStorage());
    this.#dialog.querySelector("form").addEventListener("submit", () => this.#use());
    find("forget").addEventListener("click", () => this.#forget());
    find("cancel").addEventListener("click", () => this.#dialog.close());
    this.#dialog.addEventListener("close", () => this.#clear());
    this.#load();
  }

  // openDialog opens the dialog and focuses the first field of the named schemes.
  openDialog(names = []) {
    for (const [name, input] of this.#fields) input.value = this.#values[name] ?? "";
    this.#remember.checked = this.#stored() !== null;
    this.#showStorage();
    this.#dialog.showModal();
    const field = this.#fields.get(names.find((name) => this.#fields.has(name)) ?? this.#fields.keys().next().value);
    find("more").open = find("more").contains(field) || [...this.#fields.keys()].slice(1).some((name) => this.#values[name]);
    field?.focus();
  }

  #addField(name, scheme) {
    const field = document.getElementById("credentials-field").content.cloneNode(true);
    const [label, description, input, show] = ["label", "p", "input", "button"].map((part) => field.querySelector(part));
    input.id = `credential-${name}`;
    input.name = name;
    label.htmlFor = input.id;
    label.textContent = title(name);
    const header = document.createElement("code");
    header.textContent = scheme.type === "http" ? "Authorization: Bearer" : scheme.name;
    description.id = `${input.id}-description`;
    description.append(header, " ", ...markUpCode(scheme.description ?? ""));
    input.setAttribute("aria-describedby", description.id);
    show.setAttribute("aria-label", `Show ${title(name)}`);
    show.addEventListener("click", () => {
      const masked = input.classList.toggle("masked");
      show.setAttribute("aria-pressed", String(!masked));
    });
    find(this.#fields.size === 0 ? "fields" : "others").append(field);
    this.#fields.set(name, input);
  }

  // #use stores the entered values. It does not wait for the "close" event of the dialog, because the user may execute an
  // operation before the event.
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

  // #clear removes the values from the fields of the closed dialog.
  #clear() {
    if (this.#dialog.open) return; // it was opened again
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

  #showStorage() {
    find("where").textContent = this.#remember.checked ? inLocalStorage : inMemory;
  }

  #load() {
    let loaded = {};
    try {
      loaded = JSON.parse(this.#stored() ?? "{}");
    } catch {
      this.#store(null);
    }
    const known = Object.entries(loaded).filter(([name, value]) => this.#fields.has(name) && typeof value === "string");
    this.#set(Object.fromEntries(known));
  }

  #stored() {
    try {
      return window.localStorage.getItem(this.#key);
    } catch {
      return null; // local storage can be disabled
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
