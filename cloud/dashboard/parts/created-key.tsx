import { CodeBlock } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { texts } from "../texts/settings";
import { StoreOnceDialog } from "./store-once";

/** The full key, its lowercase form if that differs, and its image path. */
export function CreatedKey({ created }: { created: Schema<"CreatedApiKey"> }) {
  const { key, keyLower, image } = created;
  const lower: [string, string][] = key === keyLower ? [] : [[texts.keys.lowerKey, keyLower]];
  const values: [string, string | null][] = [[texts.keys.fullKey, key], ...lower, [texts.keys.image, image]];
  return (
    <dl class="stack tight">
      {values.map(([label, value]) => (
        <div key={label}>
          <dt class="faint">{label}</dt>
          <dd>{value === null ? texts.keys.noImage : <CodeBlock text={value} label={label} />}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Shows a new key once. */
export function CreatedKeyDialog({ created, onClose }: { created: Schema<"CreatedApiKey">; onClose: () => void }) {
  return (
    <StoreOnceDialog title={texts.keys.created} confirmation={texts.keys.stored} onClose={onClose}>
      <CreatedKey created={created} />
    </StoreOnceDialog>
  );
}
