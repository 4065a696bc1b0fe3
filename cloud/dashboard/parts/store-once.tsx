import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Button, Dialog, Notice } from "../../../shared/web/ui";
import { texts } from "../texts/settings";

/** Shows a new key or token once. It closes only after the user confirmed that the value is stored. */
export function StoreOnceDialog({
  title,
  confirmation,
  children,
  onClose,
}: {
  title: string;
  confirmation: string;
  children: ComponentChildren;
  onClose: () => void;
}) {
  const [stored, setStored] = useState(false);
  return (
    <Dialog
      title={title}
      closable={false}
      onClose={onClose}
      footer={
        <Button kind="primary" disabled={!stored} onClick={onClose}>
          {texts.close}
        </Button>
      }
    >
      <Notice tone="wait">{texts.storeOnce}</Notice>
      {children}
      <label class="check">
        <input type="checkbox" checked={stored} onChange={(event) => setStored(event.currentTarget.checked)} />
        <span>{confirmation}</span>
      </label>
    </Dialog>
  );
}
