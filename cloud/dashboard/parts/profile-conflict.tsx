import { Badge, Button, Dialog, Notice } from "../../../shared/web/ui";
import { texts } from "../texts/profiles";
import type { Profile } from "./profile-data";
import { changesBetween, type Change } from "./profile-values";

/** Shows what changed elsewhere, and lets the user reload or overwrite. */
export function ConflictDialog({
  base,
  latest,
  patch,
  busy,
  onReload,
  onOverwrite,
  onClose,
}: {
  base: Profile;
  latest: Profile;
  patch: Record<string, unknown>;
  busy: boolean;
  onReload: () => void;
  onOverwrite: () => void;
  onClose: () => void;
}) {
  const changes = changesBetween(base, latest, patch);
  return (
    <Dialog
      title={texts.conflict.title}
      kind="wide"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{texts.conflict.keep}</Button>
          <Button kind="danger" onClick={onReload}>
            {texts.conflict.reload}
          </Button>
          <Button kind="primary" busy={busy} onClick={onOverwrite}>
            {texts.conflict.overwrite}
          </Button>
        </>
      }
    >
      <p>{texts.conflict.body}</p>
      {changes.length === 0 ? <Notice>{texts.conflict.nothing}</Notice> : <ChangeTable changes={changes} />}
      <p class="faint">{texts.conflict.overwriteHint}</p>
    </Dialog>
  );
}

function ChangeTable({ changes }: { changes: Change[] }) {
  const { columns } = texts.conflict;
  return (
    <div class="table-wrap">
      <table class="table cards" aria-label={texts.conflict.table}>
        <thead>
          <tr>
            <th scope="col">{columns.field}</th>
            <th scope="col">{columns.before}</th>
            <th scope="col">{columns.now}</th>
          </tr>
        </thead>
        <tbody>
          {changes.map((change) => (
            <tr key={change.field}>
              <td class="title">
                <span class="change-field">
                  {labelOf(change.field)}
                  {change.both && <Badge tone="wait">{texts.conflict.both}</Badge>}
                </span>
              </td>
              <td data-label={columns.before}>
                <Value value={change.before} />
              </td>
              <td data-label={columns.now}>
                <Value value={change.now} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function labelOf(field: string): string {
  return (texts.fields as Record<string, string>)[field] ?? field;
}

function Value({ value }: { value: unknown }) {
  if (value === undefined) return <span class="faint">{texts.conflict.empty}</span>;
  return <code class="change-value">{textOf(value)}</code>;
}

/** A value as text: one line for each entry of a list or an object. */
function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.map(textOf).join("\n");
  if (typeof value !== "object" || value === null) return String(value);
  return Object.entries(value)
    .filter(([, inner]) => inner !== null)
    .map(([key, inner]) => `${key}: ${textOf(inner)}`)
    .join("\n");
}
