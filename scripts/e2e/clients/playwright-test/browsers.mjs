// node browsers.mjs DIR CHROMIUM HEADLESS_SHELL FFMPEG makes DIR a directory for PLAYWRIGHT_BROWSERS_PATH, with programs of
// this machine where Playwright looks for its own.
import { mkdirSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const [, , dir, ...programs] = process.argv;
process.env.PLAYWRIGHT_BROWSERS_PATH = dir;
const require = createRequire(import.meta.url);
const { registry } = require(join(dirname(require.resolve('playwright-core/package.json')), 'lib/server/registry/index.js'));
for (const [i, name] of ['chromium', 'chromium-headless-shell', 'ffmpeg'].entries()) {
  const path = registry.findExecutable(name).executablePath();
  mkdirSync(dirname(path), { recursive: true });
  symlinkSync(programs[i], path);
}
