// Opens every page as a user of another organization, also by the addresses of items of the first one.
import { pages } from './pages.mjs';

// Returns a function that opens a page and returns what it shows and the bodies of its API responses. It leaves the page
// before, because the body of a response that a navigation cancels may never arrive.
function reader(page, open) {
  const bodies = [];
  page.on('request', (r) => {
    if (r.url().includes('/v1/')) bodies.push(r.response().then((response) => response?.text()).catch(() => ''));
  });
  return async (path) => {
    await page.goto('about:blank');
    bodies.length = 0;
    await open(page, path);
    return (await page.content()) + (await Promise.all(bodies)).join('\n');
  };
}

export default async ({ base, data, newUser, open, signIn }) => {
  const page = await newUser();
  await signIn(page, data.user);
  const read = reader(page, open);
  for (const path of pages(data)) {
    const shown = await read(path);
    // The address of a page names the item itself.
    const own = path.split('/').at(-1);
    for (const secret of data.secrets) {
      if (secret !== own && shown.includes(secret)) throw new Error(`${path} shows ${secret} of another organization`);
    }
  }
  // The owner sees each of these, so the comparison above can fail.
  const owner = await newUser();
  await signIn(owner, data.owner);
  const readAsOwner = reader(owner, open);
  let seen = '';
  for (const path of ['/profiles', '/sessions', '/settings/keys', '/settings/members']) {
    seen += await readAsOwner(path);
  }
  const missing = data.secrets.filter((s) => !seen.includes(s));
  if (missing.length) throw new Error(`the owner does not see ${missing} either`);
};
