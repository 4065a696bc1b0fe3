// node sessions.cjs MODULE ENDPOINT connects twice, and ends as if its machine were cut off while one connection is open.
const [, , module_, endpoint] = process.argv;
const { chromium } = require(module_);

async function main() {
  const [first, second] = await Promise.all([chromium.connect(endpoint), chromium.connect(endpoint)]);
  const page = await first.newPage();
  await page.setContent('<title>first</title>');
  const titles = [await page.title(), second.contexts().length];
  await first.close();
  await (await second.newPage()).setContent('<title>second</title>');
  titles.push(await second.contexts()[0].pages()[0].title());
  console.log(JSON.stringify(titles));
  process.exit(0);
}
main().catch(error => { console.error(error); process.exit(1); });
