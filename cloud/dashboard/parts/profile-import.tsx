import { useQueryClient } from "@tanstack/preact-query";
import { useEffect, useRef, useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { useLeaveWarning } from "../../../shared/web/forms/form";
import { Badge, Button, Dialog, Icon, Notice } from "../../../shared/web/ui";
import { api } from "../api";
import { texts } from "../texts/profiles";
import { LimitNotice } from "./profile-actions";
import { randomKey } from "./once";
import { messageOf } from "./profile-bulk";
import { limitOf, remainingProfiles, useProfileStats } from "./profile-data";
import { runAll, type Outcome } from "./profile-run";
import { maxImportBytes, parseImport, type ImportRow } from "./profile-transfer";

/** Imports profiles from a file: choose, check, create. */
export function ImportDialog({ onClose }: { onClose: () => void }) {
  const [rows, setRows] = useState<ImportRow[]>();
  return rows ? (
    <Preview rows={rows} onOther={() => setRows(undefined)} onClose={onClose} />
  ) : (
    <Choose onRows={setRows} onClose={onClose} />
  );
}

function Choose({ onRows, onClose }: { onRows: (rows: ImportRow[]) => void; onClose: () => void }) {
  const input = useRef<HTMLInputElement>(null);
  const [error, setError] = useState<string>();
  const [over, setOver] = useState(false);
  const read = async (file: File | undefined) => {
    if (!file) return;
    setError(undefined);
    if (file.size > maxImportBytes) return setError(texts.import.tooLarge);
    let text: string;
    try {
      text = await file.text();
    } catch {
      return setError(texts.import.unreadable);
    }
    const parsed = parseImport(text);
    if ("error" in parsed) setError(parsed.error);
    else onRows(parsed.rows);
  };
  return (
    <Dialog title={texts.import.title} onClose={onClose} footer={<Button onClick={onClose}>{texts.cancel}</Button>}>
      <p>{texts.import.hint}</p>
      <div
        class={`drop-zone ${over ? "over" : ""}`}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          void read(event.dataTransfer?.files[0]);
        }}
      >
        <Icon name="upload" />
        <Button kind="primary" onClick={() => input.current?.click()}>
          {texts.import.choose}
        </Button>
        <span class="faint">{texts.import.drop}</span>
        <span class="faint small">{texts.import.bounds}</span>
        <input
          ref={input}
          type="file"
          accept="application/json,.json"
          aria-label={texts.import.choose}
          hidden
          onChange={(event) => {
            const chosen = event.currentTarget.files?.[0];
            void read(chosen).then(() => {
              // The same file can be chosen again after it was corrected.
              if (input.current) input.current.value = "";
            });
          }}
        />
      </div>
      {error && <Notice tone="bad">{error}</Notice>}
      <p class="faint small">{texts.import.password}</p>
    </Dialog>
  );
}

type Result = Outcome<ImportRow>;

/** Creates the profiles of the rows, and returns the result of each row. */
function useImport() {
  const queries = useQueryClient();
  const [results, setResults] = useState<ReadonlyMap<number, Result>>(new Map());
  const [state, setState] = useState<"ready" | "running" | "stopping" | "over">("ready");
  const stop = useRef(false);
  const keys = useRef(new Map<number, string>());
  useLeaveWarning(state === "running" || state === "stopping");
  useEffect(() => () => void (stop.current = true), []);

  const create = (row: ImportRow) => {
    // The key stays the same when a row is tried again: a lost response must not lead to a second profile.
    const key = keys.current.get(row.index) ?? randomKey();
    keys.current.set(row.index, key);
    return send(
      api.POST("/v1/profiles", {
        params: { header: { "Idempotency-Key": key } },
        body: row.body,
      }),
    );
  };
  const run = async (rows: ImportRow[], remaining: number | null | undefined) => {
    stop.current = false;
    setState("running");
    const before = new Map(results);
    rows.forEach((row) => before.delete(row.index));
    const show = (outcomes: Result[]) =>
      setResults(new Map([...before, ...outcomes.map((o): [number, Result] => [o.item.index, o])]));
    show([]);
    show(
      await runAll(rows, create, {
        // If not all fit, the first ones are imported, in their order.
        concurrency: typeof remaining === "number" && remaining < rows.length ? 1 : 4,
        onProgress: show,
        stopped: () => stop.current,
        isFinal: (error) => limitOf(error) !== undefined,
      }),
    );
    setState("over");
    void queries.invalidateQueries({ queryKey: ["profiles"] });
  };
  const halt = () => {
    stop.current = true;
    setState("stopping");
  };
  return { results, state, run, halt, stopped: stop.current };
}

function Preview({ rows, onOther, onClose }: { rows: ImportRow[]; onOther: () => void; onClose: () => void }) {
  const work = useImport();
  const stats = useProfileStats();
  const valid = rows.filter((row) => row.problems.length === 0);
  const remaining = remainingProfiles(stats.data);
  const outcomes = [...work.results.values()];
  const created = outcomes.filter((o) => o.state === "done").length;
  const busy = work.state === "running" || work.state === "stopping";
  const rest = valid.filter((row) => work.results.get(row.index)?.state !== "done");
  return (
    <Dialog
      title={texts.import.title}
      kind="wide"
      closable={!busy}
      onClose={onClose}
      footer={
        busy ? (
          <Button busy={work.state === "stopping"} onClick={work.halt}>
            {work.state === "stopping" ? texts.import.stopping : texts.import.stop}
          </Button>
        ) : work.state === "over" ? (
          <>
            {rest.length > 0 && (
              <Button onClick={() => void work.run(rest, remaining)}>{texts.import.retry(rest.length)}</Button>
            )}
            <Button kind="primary" onClick={onClose}>
              {texts.import.close}
            </Button>
          </>
        ) : (
          <>
            <Button onClick={onOther}>{texts.import.other}</Button>
            <Button
              kind="primary"
              disabled={valid.length === 0 || remaining === 0}
              onClick={() => void work.run(valid, remaining)}
            >
              {texts.import.action(valid.length)}
            </Button>
          </>
        )
      }
    >
      {work.state === "ready" ? (
        <Before rows={rows} valid={valid.length} remaining={remaining} limit={stats.data?.profileLimit ?? 0} />
      ) : (
        <Summary outcomes={outcomes} created={created} total={valid.length} over={!busy} stopped={work.stopped} />
      )}
      <RowTable rows={rows} results={work.results} started={work.state !== "ready"} busy={busy} />
    </Dialog>
  );
}

function Before({
  rows,
  valid,
  remaining,
  limit,
}: {
  rows: ImportRow[];
  valid: number;
  remaining: number | null | undefined;
  limit: number;
}) {
  const lacking = rows.filter((row) => row.lacksPassword).length;
  return (
    <>
      <p>{texts.import.summary(valid, rows.length - valid)}</p>
      {remaining === 0 ? (
        <LimitNotice limit={limit} />
      ) : (
        typeof remaining === "number" &&
        remaining < valid && <Notice tone="wait">{texts.import.limited(remaining)}</Notice>
      )}
      {lacking > 0 && <Notice>{texts.import.lacks(lacking)}</Notice>}
    </>
  );
}

function Summary({
  outcomes,
  created,
  total,
  over,
  stopped,
}: {
  outcomes: Result[];
  created: number;
  total: number;
  over: boolean;
  stopped: boolean;
}) {
  const limit = outcomes.map((o) => limitOf(o.error)).find((l) => l !== undefined);
  if (!over)
    return (
      <>
        <progress class="run-progress" aria-label={texts.import.title} value={outcomes.length} max={total} />
        <p role="status">{texts.import.running(created, total)}</p>
      </>
    );
  return (
    <>
      <Notice tone={created === total ? "good" : "wait"} title={texts.import.result(created, total)}>
        {limit ? texts.import.limit(limit.current, limit.limit) : stopped ? texts.import.stopped : undefined}
      </Notice>
      {limit && <LimitNotice limit={limit.limit} />}
    </>
  );
}

/** One row for each profile of the file. */
function RowTable({
  rows,
  results,
  started,
  busy,
}: {
  rows: ImportRow[];
  results: ReadonlyMap<number, Result>;
  started: boolean;
  busy: boolean;
}) {
  return (
    <div class="table-wrap import-rows" tabIndex={0} role="region" aria-label={texts.import.preview}>
      <table class="table" aria-label={texts.import.preview}>
        <thead>
          <tr>
            <th scope="col" class="fit">
              {texts.import.columns.row}
            </th>
            <th scope="col">{texts.import.columns.name}</th>
            <th scope="col" class="fit">
              {texts.import.columns.browser}
            </th>
            <th scope="col">{texts.import.columns.result}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.index}>
              <td class="numeric">{row.index + 1}</td>
              <td>
                <span class="truncate">{row.name || <span class="faint">{texts.import.unnamed}</span>}</span>
              </td>
              <td class="numeric">{row.browserVersion}</td>
              <td>
                <RowState row={row} result={results.get(row.index)} started={started} busy={busy} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function RowState({
  row,
  result,
  started,
  busy,
}: {
  row: ImportRow;
  result: Result | undefined;
  started: boolean;
  busy: boolean;
}) {
  if (row.problems.length > 0)
    return (
      <>
        <Badge tone="bad">{texts.import.invalid}</Badge>
        <ul class="small problem-list">
          {row.problems.map((p) => (
            <li key={p.field}>
              {p.field && (
                <>
                  <code>{p.field}</code>:{" "}
                </>
              )}
              {p.message}
            </li>
          ))}
        </ul>
      </>
    );
  if (!started) return <Badge tone="good">{texts.import.valid}</Badge>;
  if (result?.state === "done") return <Badge tone="good">{texts.import.created}</Badge>;
  if (!result) return <Badge>{busy ? texts.import.waiting : texts.import.notImported}</Badge>;
  return (
    <>
      <Badge tone="bad">{texts.import.notImported}</Badge>
      {result.error ? <p class="small">{messageOf(result.error)}</p> : null}
    </>
  );
}
