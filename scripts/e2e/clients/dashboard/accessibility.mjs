// Returns the findings of axe on every page and the pages that are wider than the screen, for each color scheme and width
// in data.screens. With data.alternate, each page is checked for one of them only, in turn.
import { pages, publicPages } from './pages.mjs';

export default async ({ base, data, newUser, open, settled, signIn, findings, overflow, screenshot }) => {
  const found = [];
  for (const [turn, [scheme, width]] of data.screens.entries()) {
    const selected = (paths) => paths.filter((_, i) => !data.alternate || i % data.screens.length === turn);
    const context = { colorScheme: scheme, viewport: { width, height: 900 }, reducedMotion: 'reduce' };
    const check = async (page, path) => {
      const name = `${path.split('#')[0].replace(/[0-9a-f-]{36}/, 'id').slice(1).replaceAll('/', '-')}-${scheme}-${width}`;
      await screenshot(page, name);
      found.push(...(await findings(page)).map((f) => `${name}: ${f}`));
      if ((await overflow(page)) > 0) found.push(`${name}: the page is wider than the screen`);
      const headings = await page.locator('h1').count();
      if (headings !== 1) found.push(`${name}: ${headings} headings of level 1`);
    };
    const visitor = await newUser(context);
    for (const path of selected(publicPages)) {
      await visitor.goto('about:blank');
      await open(visitor, path);
      await check(visitor, path);
    }
    const user = await newUser(context);
    await signIn(user, data.user);
    for (const path of selected(pages(data))) {
      await open(user, path);
      await check(user, path);
    }
  }
  return found;
};
