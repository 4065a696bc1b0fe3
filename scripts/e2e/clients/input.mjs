import { text } from 'node:stream/consumers';

// input reads the input of the test from standard input. URLs contain tokens, which must not be on a command line.
export const input = async () => JSON.parse(await text(process.stdin));

// writeResult writes the result for the test to standard output.
export const writeResult = (result) => process.stdout.write(JSON.stringify(result));
