// Explorer uses the page /docs. Each method is a step of a test.
export class Explorer {
  #page;
  #options;
  #last; // the operation called last, by the id of its element

  constructor(page, options) {
    this.#page = page;
    this.#options = options;
  }

  // visit opens a new page, at a link to one operation ("#/Tag/operationId") or at the top.
  async visit(link = '') {
    await this.#page.goto('about:blank');
    await this.#page.goto(this.#options.url + link);
    await this.#page.waitForSelector('.opblock');
  }

  async reload() {
    await this.#page.reload();
    await this.#page.waitForSelector('.opblock');
  }

  // waitForOpen waits up to 10 s until the operations with these ids are open, the first of them is visible and the URL has the
  // hash. It returns the open operations.
  async waitForOpen(ids, hash) {
    const read = () => {
      const open = [...document.querySelectorAll('.opblock.is-open')];
      const top = open[0]?.getBoundingClientRect().top;
      return { ids: open.map((o) => o.id), visible: top !== undefined && top >= -5 && top < window.innerHeight, hash: window.location.hash };
    };
    const matches = (now) => now.ids.join() === ids.join() && now.visible === ids.length > 0 && (hash === undefined || now.hash === hash);
    return this.#waitUntil(() => this.#page.evaluate(read), matches);
  }

  // #waitUntil calls read until matches accepts the result, for up to 10 s, and returns the last result.
  async #waitUntil(read, matches) {
    for (const end = Date.now() + 10_000; ; await this.#page.waitForTimeout(50)) {
      const result = await read();
      if (matches(result) || Date.now() > end) return result;
    }
  }

  // enterCredentials enters credentials by scheme. With remember, it selects that the browser stores them.
  async enterCredentials(credentials, remember = false) {
    await this.#page.click('#credentials-button');
    await this.#page.setChecked('#credentials-remember', remember);
    await this.#page.locator('#credentials-more').evaluate((more) => (more.open = true));
    for (const [scheme, value] of Object.entries(credentials)) await this.#page.fill(`#credential-${scheme}`, value);
    await this.#page.keyboard.press('Enter');
  }

  // forgetCredentials removes the stored credentials.
  async forgetCredentials() {
    await this.#page.click('#credentials-button');
    await this.#page.click('#credentials-forget');
  }

  // credentials returns what the page shows about credentials, and everything that the browser stores for the page.
  async credentials() {
    await this.#page.click('#credentials-button');
    const state = await this.#page.evaluate(() => ({
      offered: [...document.querySelectorAll('#credentials .credential input')].map((i) => i.name),
      shown: [...document.querySelectorAll('#credentials .credential input')].filter((i) => i.checkVisibility()).map((i) => i.name),
      remember: document.getElementById('credentials-remember').checked,
      where: document.getElementById('credentials-where').textContent,
      button: document.getElementById('credentials-button').textContent.trim(),
      stored: JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]),
    }));
    await this.#page.keyboard.press('Escape');
    return state;
  }

  // call opens a link to an operation, fills its fields and its body, executes it and returns the response on the page.
  async call(link, { fields = {}, body } = {}) {
    await this.#page.evaluate((to) => (window.location.hash = to), link);
    const id = `operations-${link.slice(2).replaceAll('%20', '_').replace('/', '-')}`;
    this.#last = id;
    const operation = this.#page.locator(`[id="${id}"]`);
    for (const [name, value] of Object.entries(fields)) await operation.locator(`[data-param-name="${name}"] :is(input, select)`).fill(value);
    if (body) await operation.locator('textarea.body-param__text').fill(JSON.stringify(body));
    await operation.locator('button.execute').click();
    await this.#page.waitForFunction((at) => document.getElementById(at).querySelector('.live-responses-table .response') && !document.querySelector('.loading'), id);
    return operation.evaluate((block) => {
      const live = block.querySelector('.live-responses-table');
      const text = live.querySelector('.response-col_description pre.microlight')?.textContent ?? '';
      const body = text.startsWith('{') ? JSON.parse(text) : { text };
      return {
        status: Number.parseInt(live.querySelector('tbody .response-col_status').textContent, 10), body,
        curl: block.querySelector('.curl').textContent, statusText: document.getElementById('response-status').textContent,
      };
    });
  }

  // quickStart returns the command lines of the quick start.
  async quickStart() {
    return this.#page.locator('#start pre').allInnerTexts();
  }

  // needs opens a link to an operation and returns what the page says beside Execute about missing credentials.
  async needs(link) {
    await this.#page.evaluate((to) => (window.location.hash = to), link);
    const id = `operations-${link.slice(2).replaceAll('%20', '_').replace('/', '-')}`;
    await this.#page.waitForSelector(`[id="${id}"] button.execute`);
    return (await this.#page.locator(`[id="${id}"] .need`).allInnerTexts()).join();
  }

  // search types into the search field, waits up to 10 s for this number of operations, and returns the operations found.
  async search(phrase, count) {
    await this.#page.getByRole('searchbox', { name: 'Find operations' }).fill(phrase);
    const read = () => [...document.querySelectorAll('.opblock-summary-path')].map((p) => p.dataset.path);
    return this.#waitUntil(() => this.#page.evaluate(read), (paths) => paths.length === count);
  }

  // theme selects a colour scheme if there is a choice, and returns the colours.
  async theme(choice) {
    if (choice !== undefined) await this.#page.selectOption('#theme', choice);
    return this.#page.evaluate(() => ({ choice: document.getElementById('theme').value, background: getComputedStyle(document.body).backgroundColor }));
  }

  // keyboard opens the dialog and an operation with the keyboard only, and returns the focused elements.
  async keyboard(id) {
    const focus = () => this.#page.evaluate(() => document.activeElement.id || document.activeElement.className);
    await this.#page.focus('#credentials-button');
    await this.#page.keyboard.press('Enter');
    const inDialog = await focus();
    await this.#page.keyboard.press('Escape');
    const after = await focus();
    await this.#page.focus(`[id="${id}"] .opblock-summary-control`);
    await this.#page.keyboard.press('Enter');
    await this.#page.waitForSelector(`[id="${id}"].is-open`);
    return { inDialog, after };
  }

  // findings returns the findings of axe after all animations have ended, each as "impact rule: element". With skip, it
  // returns none: the quick run checks each page in one color scheme, because this takes seconds.
  async findings(skip = false) {
    if (skip) return [];
    await this.#waitUntil(() => this.#page.evaluate(() => document.getAnimations().length), (running) => running === 0);
    await this.#page.evaluate(this.#options.axe); // not as a script of the page, which its policy forbids
    return this.#page.evaluate(async () => {
      const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
      return violations.flatMap((v) => v.nodes.map((n) => `${v.impact} ${v.id}: ${n.target.join(' ')}`));
    });
  }

  // dialog opens the dialog for credentials and leaves it open.
  async dialog() {
    await this.#page.click('#credentials-button');
  }

  // overflow returns the number of pixels by which the page is wider than the screen.
  async overflow() {
    return this.#page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  }

  // timing returns the bytes that the last visit transferred, and the time in milliseconds until the operations were
  // shown.
  async timing() {
    return this.#page.evaluate(() => ({
      usable: window.usable,
      bytes: performance.getEntries().reduce((sum, e) => sum + (e.transferSize ?? 0), 0),
    }));
  }

  // screenshot saves a screenshot of the operation called last, if the test has a directory for screenshots.
  async screenshot(name) {
    if (!this.#options.screenshotDir) return;
    const size = this.#page.viewportSize();
    await this.#page.setViewportSize({ ...size, height: 1800 }); // large enough to show the response
    await this.#page.evaluate((id) => document.getElementById(id)?.scrollIntoView(), this.#last);
    await this.#page.screenshot({ path: `${this.#options.screenshotDir}/${name}.png` });
    await this.#page.setViewportSize(size);
  }
}
