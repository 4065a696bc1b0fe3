// Runs tests, some at a time, and returns how many passed, and the errors of the others.
export async function runTests(tests, parallel) {
  const waiting = [...tests], failed = [];
  const work = async () => {
    for (let test = waiting.shift(); test; test = waiting.shift()) {
      await test.run().catch((error) => failed.push(`${test.name}: ${error.stack ?? error}`));
    }
  };
  await Promise.all(Array.from({ length: parallel }, work));
  return { passed: tests.length - failed.length, failed };
}
