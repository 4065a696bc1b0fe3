// Opens a page with Stagehand, without a language model, and returns what it shows.
import { Stagehand } from '@browserbasehq/stagehand';
import { input, writeResult } from '../input.mjs';

const { endpoint, headers, url, expression } = await input();
const stagehand = new Stagehand({
  env: 'LOCAL',
  verbose: 0,
  disablePino: true,
  localBrowserLaunchOptions: { cdpUrl: endpoint, cdpHeaders: headers },
});
await stagehand.init();
try {
  const page = await stagehand.context.newPage();
  await page.goto(url);
  const { product } = await page.sendCDP('Browser.getVersion');
  const seen = { title: await page.title(), value: await page.evaluate(expression), version: product.split('/')[1] };
  writeResult({ ...seen, screenshot: (await page.screenshot()).length });
  await page.close();
} finally {
  await stagehand.close();
}
