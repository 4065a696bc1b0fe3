// A nullable property of an answer is required: null says "none", and absence
// nothing. Requests, which are closed, may leave it out.
export default function required(schema) {
  if (!schema?.properties || schema.additionalProperties === false) return [];
  return Object.entries(schema.properties)
    .filter(([name, property]) => property?.nullable && !schema.required?.includes(name))
    .map(([name]) => ({ message: `${name} is nullable and not required` }));
}
