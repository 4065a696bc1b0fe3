// The list of tabs with thumbnails, refreshed while the page is visible.
import * as api from './api.js';

const interval = 3000; // ms between two rounds
const maxWait = 30000; // ms, after failures
const maxThumbnails = 24; // maximum number of tabs with thumbnails

export class Tabs {
  #list;
  #template;
  #cards = new Map(); // by tab id
  #timer;
  #busy = false;
  #again = false;
  #failures = 0;
  #done = false;

  pictures = true;

  // onError is called with an error, and with undefined after a successful round.
  // onClose is called with the id of a tab that the user closes.
  constructor(list, template, {onError, onClose}) {
    Object.assign(this, {onError, onClose});
    this.#list = list;
    this.#template = template;
    document.addEventListener('visibilitychange', () => this.refresh());
  }

  // refresh starts a round immediately.
  async refresh() {
    if (this.#done) return;
    if (this.#busy) {
      this.#again = true;
      return;
    }
    clearTimeout(this.#timer);
    if (document.hidden) return;
    this.#busy = true;
    try {
      await this.#round();
      this.#failures = 0;
      this.onError();
    } catch (error) {
      this.#failures++;
      this.onError(error);
    } finally {
      this.#busy = false;
    }
    if (this.#done) return;
    const wait = this.#again ? 0 : Math.min(interval * 2 ** this.#failures, maxWait);
    this.#again = false;
    this.#timer = setTimeout(() => this.refresh(), wait);
  }

  stop() {
    this.#done = true;
    clearTimeout(this.#timer);
    for (const id of [...this.#cards.keys()]) this.#drop(id);
  }

  async #round() {
    const tabs = await api.tabs();
    const open = new Set(tabs.map((tab) => tab.id));
    for (const id of [...this.#cards.keys()]) if (!open.has(id)) this.#drop(id);
    // New cards are appended, so that existing cards do not move.
    for (const tab of tabs) this.#show(tab);
    for (const id of [...this.#cards.keys()].slice(0, maxThumbnails)) {
      if (this.#again || this.#done || !this.pictures || document.hidden) return;
      await this.#updateThumbnail(id);
    }
  }

  #show(tab) {
    const card = this.#cards.get(tab.id) ?? this.#add(tab.id);
    const title = tab.title || 'Untitled';
    setText(card.querySelector('h3'), title);
    setText(card.querySelector('p'), tab.url);
    card.querySelector('p').title = tab.url;
    card.querySelector('button').setAttribute('aria-label', `Close tab: ${title}`);
    const link = card.querySelector('a');
    link.hidden = !('devtools' in document.body.dataset) || !tab.devtoolsFrontendUrl;
    link.setAttribute('aria-label', `DevTools: ${title}`);
    if (!link.hidden && URL.canParse(tab.devtoolsFrontendUrl, location.href)) {
      const address = new URL(tab.devtoolsFrontendUrl, location.href);
      if (address.protocol === 'http:' || address.protocol === 'https:') link.href = address;
    }
  }

  #add(id) {
    const card = this.#template.content.firstElementChild.cloneNode(true);
    card.querySelector('button').addEventListener('click', () => this.onClose(id));
    this.#cards.set(id, card);
    this.#list.append(card);
    return card;
  }

  #drop(id) {
    const card = this.#cards.get(id);
    URL.revokeObjectURL(card.querySelector('img').src);
    card.remove();
    this.#cards.delete(id);
  }

  async #updateThumbnail(id) {
    let blob;
    try {
      blob = await api.picture(id);
    } catch (error) {
      if (error instanceof api.EndedError) throw error;
      return; // a tab that is closing or stuck keeps its last thumbnail
    }
    const image = this.#cards.get(id)?.querySelector('img');
    if (!image) return;
    URL.revokeObjectURL(image.src);
    image.src = URL.createObjectURL(blob);
    image.hidden = false;
  }
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
