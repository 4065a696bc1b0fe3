// The words of JSON, and whether a string is a key.
const words = /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;
const most = 200_000; // characters that are worth colouring

// colour splits JSON into pieces {text, kind}; kind is key, string, number,
// literal, or undefined for what has no colour.
export function colour(text, language) {
  if (language !== "json" || text.length > most) return [{ text }];
  const pieces = [];
  let end = 0;
  for (const match of text.matchAll(words)) {
    const [, string, colon, number] = match;
    if (match.index > end) pieces.push({ text: text.slice(end, match.index) });
    const kind = string ? (colon === undefined ? "string" : "key") : number ? "number" : "literal";
    pieces.push({ text: string ?? match[0], kind });
    end = match.index + (string ?? match[0]).length;
  }
  pieces.push({ text: text.slice(end) });
  return pieces;
}
