// The dialogs of a page as a person without a mouse uses them. `found` has what is wrong.

// focused returns the label of the element that has the focus, or "dialog".
const focused = () => {
  const { activeElement: element } = document;
  if (element.matches('dialog')) return 'dialog';
  return (element.labels?.[0]?.innerText ?? element.getAttribute('aria-label') ?? element.innerText).trim();
};

export const keyboard = (page) => {
  const found = [];
  const dialog = page.locator('dialog[open]').last();

  // reach moves the focus with a key until the element has it.
  const reach = async (element, key = 'Tab') => {
    await element.waitFor();
    for (let i = 0; i < 200; i++) {
      if (await element.evaluate((e) => e === document.activeElement)) return;
      await page.keyboard.press(key);
    }
    throw new Error(`${key} does not reach ${element}`);
  };
  const press = async (role, name) => {
    const scope = (await dialog.count()) > 0 ? dialog : page;
    await reach(scope.getByRole(role, { name, exact: true }).first());
    await page.keyboard.press(role === 'checkbox' ? 'Space' : 'Enter');
  };
  // choose selects an item of the menu of a list entry.
  const choose = async (menu, item) => {
    await press('button', menu);
    await reach(page.getByRole('menuitem', { name: item, exact: true }), 'ArrowDown');
    await page.keyboard.press('Enter');
  };
  // opens waits for the dialog with the title and checks which element has the focus.
  const opens = async (title, name) => {
    await page.locator('dialog[open] h2', { hasText: title }).waitFor();
    let element;
    for (const end = Date.now() + 2000; Date.now() < end; ) {
      element = await page.evaluate(focused);
      if (element.startsWith(name)) return true;
    }
    found.push(`${title}: the focus is on ${element}, want ${name}`);
    return false;
  };
  const leaves = async () => {
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  };
  // submits types the text into the first field and presses Enter, which must submit the form: the dialog closes, and
  // the API has changed something.
  const submits = async (title, name, text) => {
    if (!(await opens(title, name))) await reach(dialog.getByLabel(name).first());
    const sent = page.waitForResponse((r) => !['GET', 'OPTIONS'].includes(r.request().method()), { timeout: 5000 }).catch(() => undefined);
    await page.keyboard.press('ControlOrMeta+a');
    await page.keyboard.type(text);
    await page.keyboard.press('Enter');
    const status = (await sent)?.status();
    if (!status || status >= 300) found.push(`${title}: Enter ${status ? `was answered with ${status}` : 'sends nothing'}`);
    if (!status) await leaves();
    else await page.locator('dialog[open] h2', { hasText: title }).waitFor({ state: 'detached' });
  };
  return { found, press, choose, opens, submits, leaves };
};
