// The JSON of a 2xx says success: true, that of a failure success: false. The
// 402 of authorize is a verdict, and so a success. What the tag raw marks may
// answer in another protocol's shapes.
export default function verdict(operation) {
  if (operation.tags?.includes('raw')) return [];
  const wrong = [];
  for (const [status, response] of Object.entries(operation.responses ?? {})) {
    const schema = response?.content?.['application/json']?.schema;
    if (!schema) continue;
    const said = schema.properties?.success?.enum;
    const wanted = status.startsWith('2') || (status === '402' && operation.operationId === 'authorizeLaunch');
    if (said?.length !== 1 || said[0] !== wanted) {
      wrong.push({ message: `${status} must answer success: ${wanted}, and nothing else` });
    }
  }
  return wrong;
}
