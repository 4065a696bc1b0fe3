// Runs an example in its project, and returns what it prints.
import { pathToFileURL } from 'node:url';
import { input, writeResult } from '../input.mjs';

const { project, name, environment } = await input();
process.chdir(project);
Object.assign(process.env, environment);
const printed = [];
console.log = (...values) => printed.push(values.join(' '));
await import(pathToFileURL(`${project}/${name}.js`));
writeResult(printed);
