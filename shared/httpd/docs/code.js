// The tokens of JSON. A string with a colon is a key.
const tokens = /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;
const maxLength = 200_000; // characters; longer texts have no colours

// tokenize splits JSON into tokens {text, kind}. kind is key, string, number, literal, or undefined for text without a
// colour.
export function tokenize(text, language) {
  if (language !== "json" || text.length > maxLength) return [{ text }];
  const result = [];
  let end = 0;
  for (const match of text.matchAll(tokens)) {
    const [, string, colon, number] = match;
    if (match.index > end) result.push({ text: text.slice(end, match.index) });
    const kind = string ? (colon === undefined ? "string" : "key") : number ? "number" : "literal";
    result.push({ text: string ?? match[0], kind });
    end = match.index + (string ?? match[0]).length;
  }
  result.push({ text: text.slice(end) });
  return result;
}

// markUpCode returns the parts of a text, with `quoted` parts as code elements.
export function markUpCode(text) {
  return text.split("`").map((part, i) => {
    if (i % 2 === 0) return part;
    const code = document.createElement("code");
    code.textContent = part;
    return code;
  });
}
