// Opens every page as a user of another organization, also by the addresses of items of the first one.
import { pages } from './pages.mjs';

// Collects the bodies of API responses. It waits for the end of each request, because the body of a response that a
// navigation cancels never arrives.
function collectAnswers(page) {
  const answers = [];
  page.on('requestfinished', (r) => {
    if (r.url().includes('/v1/')) answers.push(r.response().then((response) => response.text()).catch(() => ''));
  });
  return answers;
}

export default async ({ base, data, newUser, open, signIn }) => {
  const page = await newUser();
  await signIn(page, data.user);
  const answers = collectAnswers(page);
  for (const path of pages(data)) {
    await open(page, path);
    const shown = (await page.content()) + (await Promise.all(answers.splice(0))).join('\n');
    // The address of a page names the item itself.
    const own = path.split('/').at(-1);
    for (const secret of data.secrets) {
      if (secret !== own && shown.includes(secret)) throw new Error(`${path} shows ${secret} of another organization`);
    }
  }
  // The owner sees each of these, so the comparison above can fail.
  const owner = await newUser();
  await signIn(owner, data.owner);
  const ownerAnswers = collectAnswers(owner);
  let seen = '';
  for (const path of ['/profiles', '/sessions', '/settings/keys', '/settings/members']) {
    await open(owner, path);
    seen += (await owner.content()) + (await Promise.all(ownerAnswers.splice(0))).join('\n');
  }
  const missing = data.secrets.filter((s) => !seen.includes(s));
  if (missing.length) throw new Error(`the owner does not see ${missing} either`);
};
