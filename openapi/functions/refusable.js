// An operation with parameters, a body or a credential can be called incorrectly,
// so it documents a status from 400 to 499.
export default function refusable(item) {
  return ['get', 'post', 'put', 'patch', 'delete', 'head'].filter((method) => {
    const operation = item[method];
    if (!operation) return false;
    const hasInput =  item.parameters?.length || operation.parameters?.length || operation.requestBody || operation.security?.length;
    return hasInput && !Object.keys(operation.responses ?? {}).some((status) => /^4\d\d$/.test(status));
  }).map((method) => ({ message: `${method} documents no 4xx response` }));
}
