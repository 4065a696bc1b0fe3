// Explorer is the page /docs, as a person uses it. Each method is a step of a test.
export class Explorer {
  #page;
  #options;
  #last; // the operation called last, by the id of its element

  constructor(page, options) {
    this.#page = page;
    this.#options = options;
  }

  // visit opens the page anew, at a link to one operation ("#/Tag/operationId") or at its top.
  async visit(link = '') {
    await this.#page.goto('about:blank');
    await this.#page.goto(this.#options.url + link);
    await this.#page.waitForSelector('.opblock');
  }

  async reload() {
    await this.#page.reload();
    await this.#page.waitForSelector('.opblock');
  }

  // shown waits until the operations with these ids are open, the first of them in sight and named by the address, or
  // for 10 s; and tells which are.
  async shown(ids, hash) {
    const look = () => {
      const open = [...document.querySelectorAll('.opblock.is-open')];
      const top = open[0]?.getBoundingClientRect().top;
      return { ids: open.map((o) => o.id), inSight: top !== undefined && top >= -5 && top < window.innerHeight, hash: window.location.hash };
    };
    const fits = (now) => now.ids.join() === ids.join() && now.inSight === ids.length > 0 && (hash === undefined || now.hash === hash);
    return this.#until(() => this.#page.evaluate(look), fits);
  }

  // #until looks until what it sees fits, or for 10 s, and tells what it saw last.
  async #until(look, fits) {
    for (const end = Date.now() + 10_000; ; await this.#page.waitForTimeout(50)) {
      const seen = await look();
      if (fits(seen) || Date.now() > end) return seen;
    }
  }

  // give enters credentials by scheme, and with remember asks that they be kept.
  async give(credentials, remember = false) {
    await this.#page.click('#credentials-button');
    await this.#page.setChecked('#credentials-remember', remember);
    for (const [scheme, value] of Object.entries(credentials)) await this.#page.fill(`#credential-${scheme}`, value);
    await this.#page.keyboard.press('Enter');
  }

  async forget() {
    await this.#page.click('#credentials-button');
    await this.#page.click('#credentials-forget');
  }

  // credentials tells what the page says of them, and everything that the browser keeps for the page.
  async credentials() {
    await this.#page.click('#credentials-button');
    const told = await this.#page.evaluate(() => ({
      offered: [...document.querySelectorAll('#credentials-fields input')].map((i) => i.name),
      remember: document.getElementById('credentials-remember').checked,
      where: document.getElementById('credentials-where').textContent,
      button: document.getElementById('credentials-button').textContent.trim(),
      kept: JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]),
    }));
    await this.#page.keyboard.press('Escape');
    return told;
  }

  // call follows a link to an operation, fills its fields and its body, executes it, and reads the answer in the page.
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
        curl: block.querySelector('.curl').textContent, said: document.getElementById('said').textContent,
      };
    });
  }

  // find types into the search field, waits for that many operations, or for 10 s, and tells what is left of them.
  async find(phrase, count) {
    await this.#page.getByRole('searchbox', { name: 'Find operations' }).fill(phrase);
    const look = () => [...document.querySelectorAll('.opblock-summary-path')].map((p) => p.dataset.path);
    return this.#until(() => this.#page.evaluate(look), (paths) => paths.length === count);
  }

  // theme chooses colours; without a choice it tells them.
  async theme(choice) {
    if (choice !== undefined) await this.#page.selectOption('#theme', choice);
    return this.#page.evaluate(() => ({ choice: document.getElementById('theme').value, ground: getComputedStyle(document.body).backgroundColor }));
  }

  // keyboard opens the dialog and an operation by keys alone, and tells where the focus went.
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

  // findings are what axe says of the page once its colours have stopped changing, each as "impact rule: element".
  async findings() {
    await this.#until(() => this.#page.evaluate(() => document.getAnimations().length), (running) => running === 0);
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

  // overflow is by how many pixels the page is wider than the screen.
  async overflow() {
    return this.#page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  }

  // timing tells what the page's last visit weighed on the network, in bytes, and when its operations were there, in
  // milliseconds from its start.
  async timing() {
    return this.#page.evaluate(() => ({
      usable: window.usable,
      bytes: performance.getEntries().reduce((sum, e) => sum + (e.transferSize ?? 0), 0),
    }));
  }

  // picture saves the operation called last for a person to look at, where the test says so.
  async picture(name) {
    if (!this.#options.pictures) return;
    const size = this.#page.viewportSize();
    await this.#page.setViewportSize({ ...size, height: 1800 }); // with the answer
    await this.#page.evaluate((id) => document.getElementById(id)?.scrollIntoView(), this.#last);
    await this.#page.screenshot({ path: `${this.#options.pictures}/${name}.png` });
    await this.#page.setViewportSize(size);
  }
}
