// Generates load for make bench-throughput: node throughput.mjs PEER. The first line of stdin is the setup, each further
// line a task; each has a line of stdout as its answer. Every session requests a browser, opens the page, reads it and
// ends the browser. All peers but puppeteer have the same client, Playwright.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { performance } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const resolve = createRequire(import.meta.url);
const version = (name) => resolve(`${name}/package.json`).version;
const read = 'document.querySelectorAll("p").length + document.body.innerText.length';

// Each function takes the setup and returns the version and a function that runs one session. It calls mark with
// answered when the browser has answered its first command, and with loaded after the load event of the page.
const peers = {
  async 'run-server'({ executable, sandbox, page: url }) {
    const { chromium } = await import('playwright-core');
    const address = await runServer();
    const headers = {
      'x-playwright-browser': 'chromium',
      'x-playwright-launch-options': JSON.stringify({ executablePath: executable, headless: true, chromiumSandbox: sandbox }),
    };
    return {
      version: version('playwright-core'),
      session: async (mark) => usePlaywright(await chromium.connect(address, { headers }), (browser) => browser.newPage(), url, mark),
    };
  },

  async puppeteer({ executable, sandbox, page: url }) {
    const { default: puppeteer } = await import('puppeteer-core');
    const options = { executablePath: executable, headless: true, args: sandbox ? [] : ['--no-sandbox'] };
    return {
      version: version('puppeteer-core'),
      async session(mark) {
        const browser = await puppeteer.launch(options);
        try {
          await browser.version();
          mark('answered');
          const page = await browser.newPage();
          await page.goto(url);
          mark('loaded');
          await page.evaluate(read);
        } finally {
          await browser.close();
        }
      },
    };
  },

  async worker(setup) {
    const { chromium } = await import('playwright-core');
    return {
      version: version('playwright-core'),
      session: (mark) =>
        useWorker(setup, mark, async (address) =>
          usePlaywright(await chromium.connectOverCDP(address), (browser) => browser.contexts()[0].pages()[0], setup.page, mark),
        ),
    };
  },
};

// runServer starts playwright run-server, which launches a browser for each connection. It accepts another Chromium
// than playwright's own only with PWTEST_UNDER_TEST.
async function runServer() {
  const cli = resolve.resolve('playwright-core/package.json').replace('package.json', 'cli.js');
  const server = spawn(process.execPath, [cli, 'run-server', '--host', '127.0.0.1', '--port', '0'], {
    env: { ...process.env, PWTEST_UNDER_TEST: '1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  process.on('exit', () => server.kill());
  return new Promise((found, failed) => {
    server.on('exit', () => failed(new Error('playwright run-server ended')));
    createInterface(server.stdout).on('line', (line) => {
      const match = /ws:\/\/\S+/.exec(line);
      if (match) found(match[0]);
    });
  });
}

async function usePlaywright(browser, openPage, url, mark) {
  try {
    const cdp = await browser.newBrowserCDPSession();
    await cdp.send('Browser.getVersion');
    mark('answered');
    const page = await openPage(browser);
    await page.goto(url);
    mark('loaded');
    await page.evaluate(read);
  } finally {
    await browser.close();
  }
}

// useWorker launches a session of the worker, uses it and ends it.
async function useWorker({ worker, key, profile, engine }, mark, use) {
  const call = async (method, path, body) => {
    const answer = await fetch(worker + path, {
      method,
      headers: { 'X-Api-Key': key, 'Content-Type': 'application/json' },
      body: body && JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return JSON.parse(text).data;
  };
  const session = await call('POST', '/sessions/profile', { profileId: profile, browser: { headless: true, engine, timeoutMs: 90000 } });
  if (session.start.warm) mark('warm');
  try {
    await use(session.webSocketDebuggerUrl);
  } finally {
    await call('DELETE', `/sessions/${session.id}`);
  }
}

let peer;

// measure runs one session and returns its times in milliseconds since due.
async function measure(due = performance.now()) {
  const result = { warm: false };
  try {
    await peer.session((name) => (result[name] = name === 'warm' || performance.now() - due));
  } catch (problem) {
    result.error = String(problem);
  }
  return result;
}

// Each function takes a task and returns the results of its sessions.
const tasks = {
  // loop lets each of some clients run one session after another.
  async loop({ clients, seconds }) {
    const end = performance.now() + seconds * 1000;
    const all = [];
    const client = async () => {
      while (performance.now() < end) all.push(await measure());
    };
    await Promise.all(Array.from({ length: clients }, client));
    return all;
  },

  // arrive starts a session at regular times, whether or not others have ended. Times count from when it was due.
  async arrive({ perMinute, seconds }) {
    const began = performance.now();
    const all = [];
    for (let n = 0; n * 60 < perMinute * seconds; n++) {
      const due = began + (n * 60_000) / perMinute;
      await sleep(Math.max(due - performance.now(), 0));
      all.push(measure(due));
    }
    return Promise.all(all);
  },

  // burst starts all sessions at once.
  burst: ({ count }) => Promise.all(Array.from({ length: count }, () => measure())),
};

const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
for await (const line of createInterface(process.stdin)) {
  const request = JSON.parse(line);
  if (!peer) {
    peer = await peers[process.argv[2]](request);
    say({ version: peer.version });
    continue;
  }
  const began = performance.now();
  const sessions = await tasks[request.task](request);
  say({ seconds: (performance.now() - began) / 1000, sessions });
}
process.exit();
