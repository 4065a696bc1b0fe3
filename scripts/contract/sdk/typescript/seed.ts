// The seeded data of the servers, and the output of the scenario.
import { readFileSync } from 'node:fs';

export interface Seed {
  cloudUrl: string;
  workerUrl: string;
  organizationId: string;
  organizationKey: string;
  workerKey: string;
  browserVersion: number;
  owner: { email: string; password: string };
  full: { organizationKey: string; profileId: string };
}

/** Reads the file at SEED and the URLs of the servers. */
export function readSeed(): Seed {
  const seed = JSON.parse(readFileSync(variable('SEED'), 'utf8')) as Seed;
  return { ...seed, cloudUrl: variable('CLOUD_URL'), workerUrl: variable('WORKER_URL') };
}

function variable(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
}

/** Prints the line of a successful step. */
export function ok(step: string, details: string): void {
  console.log(`ok  ${step.padEnd(24)} ${details}`);
}

/** Throws an error if the condition is false. */
export function expect(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(message);
}
