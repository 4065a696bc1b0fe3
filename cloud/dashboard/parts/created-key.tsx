import { useState } from "preact/hooks";
import { Button, CodeBlock, Dialog, Notice } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { texts } from "../texts/settings";

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

/** Shows a new key once. It closes only after the user confirmed that the key is stored. */
export function CreatedKeyDialog({ created, onClose }: { created: Schema<"CreatedApiKey">; onClose: () => void }) {
  const [stored, setStored] = useState(false);
  return (
    <Dialog
      title={texts.keys.created}
      closable={false}
      onClose={onClose}
      footer={
        <Button kind="primary" disabled={!stored} onClick={onClose}>
          {texts.keys.done}
        </Button>
      }
    >
      <Notice tone="wait">{texts.keys.createdHint}</Notice>
      <CreatedKey created={created} />
      <label class="check">
        <input type="checkbox" checked={stored} onChange={(event) => setStored(event.currentTarget.checked)} />
        <span>{texts.keys.stored}</span>
      </label>
    </Dialog>
  );
}
