// The schema of a path, query or header value has bounds.
const bounds = {
  integer: ['format', 'minimum', 'maximum'],
  number: ['minimum', 'maximum'],
  string: ['maxLength'],
  array: ['maxItems'],
};

export default function bounded(schema) {
  if (!schema || schema.enum) return [];
  return (bounds[schema.type] ?? [])
    .filter((bound) => schema[bound] === undefined)
    .map((bound) => ({ message: `${schema.type} without ${bound}` }));
}
