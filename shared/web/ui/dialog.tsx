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
  /** `drawer` is at the right edge, `full` as wide as the window; `wide` is for forms with two columns. */
  kind?: "modal" | "wide" | "drawer" | "full";
  /** Without it, Escape and the close button do nothing. */
  closable?: boolean;
}

/**
 * Returns what has the focus first: the first field, else the first button of the content or of the footer. Without
 * them, and in a drawer, it is the dialog.
 */
function firstControl(dialog: HTMLDialogElement, kind: DialogProps["kind"]): HTMLElement {
  if (kind === "drawer" || kind === "full") return dialog;
  const find = (selector: string) => dialog.querySelector<HTMLElement>(`:scope > .dialog-frame > ${selector}`);
  return (
    find(".content :is(input, select, textarea):not(:disabled, [readonly], [hidden])") ??
    find(".content :is(button:not(:disabled), a.button)") ??
    find("footer button") ??
    dialog
  );
}

const classes = { modal: "modal", wide: "modal wide", drawer: "drawer", full: "drawer full" };

/** A modal dialog. The browser keeps the focus inside and returns it when the dialog closes. */
export function Dialog({ title, onClose, children, footer, kind = "modal", closable = true }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog?.showModal();
    if (dialog) firstControl(dialog, kind).focus();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      class={classes[kind]}
      tabIndex={-1}
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
  const formId = useId();
  useEffect(() => () => void (open.current = false), []);
  const confirm = async (event: Event) => {
    event.preventDefault();
    if (busy) return;
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
            type="submit"
            form={formId}
            kind={kind}
            class={kind === "danger" ? "primary" : undefined}
            busy={busy}
            disabled={name !== undefined && typed !== name}
          >
            {action}
          </Button>
        </>
      }
    >
      <form id={formId} class="stack" aria-label={title} onSubmit={(event) => void confirm(event)}>
        <div>{children}</div>
        {name !== undefined && (
          <label class="field">
            <span>
              Enter <strong>{name}</strong> to confirm
            </span>
            <input
              class="input"
              value={typed}
              autocomplete="off"
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          </label>
        )}
        {error ? <ErrorNotice error={error} /> : null}
      </form>
    </Dialog>
  );
}
