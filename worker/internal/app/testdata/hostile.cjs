// node hostile.cjs MODULE ENDPOINT PROGRAM asks Playwright's server to start other programs, with messages that no API of a
// connected client sends, and prints what the server answers.
const [, , module_, endpoint, program] = process.argv;
const { chromium } = require(module_);

async function main() {
  const browser = await chromium.connect(endpoint);
  const objects = [...browser._connection._objects.values()], answers = {};
  objects.sort((a, b) => (a._type === 'Android') - (b._type === 'Android')); // the last: see the test
  const attempt = async (name, object, method, params) => {
    answers[name] = await object._channel[method](params).then(() => 'done', error => error.message.split('\n')[0]);
  };
  for (const object of objects) {
    const options = { executablePath: program, args: ['/tmp/started'], timeout: 5000, ignoreAllDefaultArgs: true };
    if (object._type === 'BrowserType') {
      const name = object._initializer.name;
      await attempt(name + '.launch', object, 'launch', options);
      await attempt(name + '.launchPersistentContext', object, 'launchPersistentContext', { ...options, userDataDir: '/tmp/data' });
      if (name === 'chromium') await attempt(name + '.connectOverCDP', object, 'connectOverCDP', { endpointURL: 'http://127.0.0.1:9222', timeout: 5000 });
    }
    if (object._type === 'Electron') await attempt('electron.launch', object, 'launch', options);
    if (object._type === 'Android') await attempt('android.devices', object, 'devices', {});
  }
  console.log(JSON.stringify(answers));
  await browser.close();
}
main().catch(error => { console.error(error); process.exit(1); });
