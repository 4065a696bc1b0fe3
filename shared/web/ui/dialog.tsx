import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Button } from "./button";
import { ErrorNotice } from "./feedback";
import { toastError } from "./toast";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  footer?: ComponentChildren;
  /** `drawer` is at the right edge; `wide` is for forms with two columns. */
  kind?: "modal" | "wide" | "drawer";
  /** Without it, Escape and the close button do nothing. */
  closable?: boolean;
}

/** A modal dialog. The browser keeps the focus inside and returns it when the dialog closes. */
export function Dialog({ title, onClose, children, footer, kind = "modal", closable = true }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      class={kind === "wide" ? "modal wide" : kind}
      aria-labelledby={id}
      onCancel={(event) => {
        // A file input in the dialog cancels, too.
        if (event.target !== ref.current) return;
        event.preventDefault();
        if (closable) onClose();
      }}
      onClose={(event) => {
        // Browsers close a dialog at the second Escape, even if the page prevents it.
        const dialog = ref.current;
        if (!dialog || event.target !== dialog || dialog.open) return;
        if (closable) onClose();
        else dialog.showModal();
      }}
      onClick={(event) => {
        if (closable && kind === "drawer" && event.target === ref.current) onClose();
      }}
    >
      <div class="dialog-frame">
        <header>
          <h2 id={id}>{title}</h2>
          {closable && <Button kind="quiet" icon="close" aria-label="Close" onClick={onClose} />}
        </header>
        <div class="content">{children}</div>
        {footer && <footer>{footer}</footer>}
      </div>
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  children: ComponentChildren;
  /** The label of the button, for example "Delete profile". */
  action: string;
  /** If set, the user must type this name to confirm. */
  name?: string;
  /** `primary` is for a change that is not destructive. */
  kind?: "danger" | "primary";
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
}

/**
 * Asks before a destructive action. It stays open and shows the error if the action fails. If it was closed meanwhile,
 * a message on the page shows the error.
 */
export function ConfirmDialog({ title, children, action, name, kind = "danger", onConfirm, onClose }: ConfirmProps) {
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const open = useRef(true);
  useEffect(() => () => void (open.current = false), []);
  const confirm = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await onConfirm();
      if (open.current) onClose();
    } catch (failure) {
      if (!open.current) return toastError(failure);
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind={kind}
            class={kind === "danger" ? "primary" : undefined}
            busy={busy}
            disabled={name !== undefined && typed !== name}
            onClick={() => void confirm()}
          >
            {action}
          </Button>
        </>
      }
    >
      <div>{children}</div>
      {name !== undefined && (
        <label class="field">
          <span>
            Enter <strong>{name}</strong> to confirm
          </span>
          <input
            class="input"
            value={typed}
            autofocus
            autocomplete="off"
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>
      )}
      {error ? <ErrorNotice error={error} /> : null}
    </Dialog>
  );
}
