// The peers that are written for Node, each the way its own documentation says for a program that launches many:
// node peers.mjs puppeteer | playwright-launch-server | playwright-run-server. The lines are those of main.go.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { performance } from 'node:perf_hooks';
import { createInterface } from 'node:readline';

const resolve = createRequire(import.meta.url);
const version = (name) => resolve(`${name}/package.json`).version;

// Each takes the setup and returns its version, and a visit: launch, answered, open the page, loaded, end.
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
          await look(await chromium.connect(server.wsEndpoint()), url, answered, loaded);
        } finally {
          await server.close();
        }
      },
    };
  },

  // A server that stays, with a browser for each client that connects. It takes a Chromium that is not playwright's own
  // only when it believes to be tested.
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
      visit: async (answered, loaded) => look(await chromium.connect(address, { headers }), url, answered, loaded),
    };
  },
};

// look drives a browser of playwright's and lets it go.
async function look(browser, url, answered, loaded) {
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
