import path from 'node:path';
import { createClient } from '@hey-api/openapi-ts';

const [cloud, worker, out] = process.argv.slice(2);
for (const input of [cloud, worker].filter(Boolean)) {
  await createClient({
    input,
    output: { path: path.join(out, path.basename(input, '.json')), module: { extension: '.js' } },
    plugins: ['@hey-api/client-fetch'],
    logs: { file: false },
  });
}
