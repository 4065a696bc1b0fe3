// A nullable property of a response is required: null means "none", so an absent
// property has no meaning. Requests, which reject unknown keys, may omit it.
export default function required(schema) {
  if (!schema?.properties || schema.additionalProperties === false) return [];
  return Object.entries(schema.properties)
    .filter(([name, property]) => property?.nullable && !schema.required?.includes(name))
    .map(([name]) => ({ message: `${name} is nullable but not required` }));
}
