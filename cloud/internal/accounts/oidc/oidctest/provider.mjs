// An OpenID provider for tests. Its configuration comes as one line of JSON; it prints its port when it serves, and
// ends with its input.
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const lines = createInterface({ input: process.stdin });
const config = JSON.parse((await lines[Symbol.asyncIterator]().next()).value);
process.stdin.on('close', () => process.exit());

const packages = createRequire(config.packages);
const { default: Provider } = await import(pathToFileURL(packages.resolve('oidc-provider')));

const provider = new Provider(config.issuer, {
  clients: config.clients.map((client) => ({ ...client, response_types: ['code'], grant_types: ['authorization_code'] })),
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
  conformIdTokenClaims: config.claimsAtUserInfoOnly,
  cookies: { keys: [config.cookieKey] },
  // Who signs in is who they say they are: any password will do.
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, name: id, email: `${id}@example.com`, email_verified: !id.startsWith('unverified') }),
  }),
});

const server = provider.listen(0, '127.0.0.1', () => console.log(server.address().port));
