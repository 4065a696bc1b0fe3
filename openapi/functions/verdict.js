// The JSON of a 2xx has success: true, and the JSON of an error has success: false.
// The 402 of authorize is a decision and not an error, so it has success: true.
// Operations with x-raw may use the formats of other protocols.
export default function verdict(operation) {
  if (operation['x-raw']) return [];
  const wrong = [];
  for (const [status, response] of Object.entries(operation.responses ?? {})) {
    const schema = response?.content?.['application/json']?.schema;
    if (!schema) continue;
    const actual = schema.properties?.success?.enum;
    const wanted = status.startsWith('2') || (status === '402' && operation.operationId === 'authorizeLaunch');
    if (actual?.length !== 1 || actual[0] !== wanted) {
      wrong.push({ message: `${status} must have success: ${wanted} and no other value` });
    }
  }
  return wrong;
}
