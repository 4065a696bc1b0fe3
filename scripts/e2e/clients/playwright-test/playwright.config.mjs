// A test suite as users of Playwright Test have it. Where its browsers run is one line: connectOptions.
import { defineConfig, devices } from '@playwright/test';

const port = process.env.SUITE_PORT ?? '4173', baseURL = `http://localhost:${port}`;

export default defineConfig({
  testDir: '.',
  outputDir: process.env.SUITE_OUTPUT ?? 'test-results',
  fullyParallel: true,
  workers: 4,
  retries: 1,
  webServer: { command: `node server.mjs ${port}`, url: baseURL },
  use: {
    baseURL,
    connectOptions: process.env.SUITE_ENDPOINT && { wsEndpoint: process.env.SUITE_ENDPOINT },
    trace: 'on-first-retry',
    video: 'on-first-retry',
    screenshot: 'only-on-failure',
    launchOptions: { args: ['--font-render-hinting=none'] },
  },
  projects: [
    { name: 'setup', testMatch: 'auth.setup.mjs' },
    { name: 'account', testMatch: 'account.spec.mjs', dependencies: ['setup'] },
    { name: 'desktop', testIgnore: ['account.spec.mjs', 'mobile.spec.mjs'], use: devices['Desktop Chrome'] },
    { name: 'mobile', testMatch: 'mobile.spec.mjs', use: devices['Pixel 7'] },
  ],
});
