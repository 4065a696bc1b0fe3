// Launches browsers with the tools for Node.js: node peers.mjs puppeteer | playwright-launch-server |
// playwright-run-server. Each is used as its documentation recommends for programs that launch many browsers. The
// protocol is that of main.go.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { performance } from 'node:perf_hooks';
import { createInterface } from 'node:readline';

const resolve = createRequire(import.meta.url);
const version = (name) => resolve(`${name}/package.json`).version;

// Each function takes the setup and returns the version and a function visit, which launches a browser, calls
// answered, opens the page, calls loaded and ends the browser.
const peers = {
  async puppeteer({ chromium, page: url, sandbox }) {
    const { default: puppeteer } = await import('puppeteer-core');
    const options = { executablePath: chromium, headless: true, args: sandbox ? [] : ['--no-sandbox'] };
    return {
      version: version('puppeteer-core'),
      async visit(answered, loaded) {
        const browser = await puppeteer.launch(options);
        try {
          await browser.version();
          answered();
          const page = await browser.newPage();
          await page.goto(url);
          loaded();
        } finally {
          await browser.close();
        }
      },
    };
  },

  async 'playwright-launch-server'({ chromium: executablePath, page: url, sandbox }) {
    const { chromium } = await import('playwright-core');
    return {
      version: version('playwright-core'),
      async visit(answered, loaded) {
        const server = await chromium.launchServer({ executablePath, headless: true, chromiumSandbox: sandbox });
        try {
          await openPage(await chromium.connect(server.wsEndpoint()), url, answered, loaded);
        } finally {
          await server.close();
        }
      },
    };
  },

  // A long-running server with a browser for each connection. It accepts another Chromium than playwright's own only
  // with PWTEST_UNDER_TEST.
  async 'playwright-run-server'({ chromium: executablePath, page: url, sandbox }) {
    const { chromium } = await import('playwright-core');
    const cli = resolve.resolve('playwright-core/package.json').replace('package.json', 'cli.js');
    const server = spawn(process.execPath, [cli, 'run-server', '--host', '127.0.0.1', '--port', '0'], {
      env: { ...process.env, PWTEST_UNDER_TEST: '1' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    process.on('exit', () => server.kill());
    const address = await new Promise((found, failed) => {
      server.on('exit', () => failed(new Error('playwright run-server ended')));
      createInterface(server.stdout).on('line', (line) => {
        const match = /ws:\/\/\S+/.exec(line);
        if (match) found(match[0]);
      });
    });
    const headers = {
      'x-playwright-browser': 'chromium',
      'x-playwright-launch-options': JSON.stringify({ executablePath, headless: true, chromiumSandbox: sandbox }),
    };
    return {
      version: version('playwright-core'),
      visit: async (answered, loaded) => openPage(await chromium.connect(address, { headers }), url, answered, loaded),
    };
  },
};

// openPage opens the page with a connected browser and closes the browser.
async function openPage(browser, url, answered, loaded) {
  try {
    const cdp = await browser.newBrowserCDPSession();
    await cdp.send('Browser.getVersion');
    answered();
    const page = await browser.newPage();
    await page.goto(url);
    loaded();
  } finally {
    await browser.close();
  }
}

const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
let peer;
for await (const line of createInterface(process.stdin)) {
  if (!peer) {
    peer = await peers[process.argv[2]](JSON.parse(line));
    say({ version: peer.version });
    continue;
  }
  const asked = performance.now();
  const marks = {};
  try {
    await peer.visit(() => (marks.answered = performance.now() - asked), () => (marks.loaded = performance.now() - asked));
  } catch (problem) {
    marks.error = String(problem);
  }
  say(marks);
}
process.exit();
