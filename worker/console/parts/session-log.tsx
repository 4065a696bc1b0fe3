import { useQuery } from "@tanstack/preact-query";
import { useEffect, useRef, useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { detailInterval, poll } from "../../../shared/web/api/query";
import { Badge, Button, ErrorNotice, formatClock } from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { texts } from "../texts/sessions";

type Entry = Schema<"PageLogEntry">;
const t = texts.drawer;
const shownEntries = 200;

/** The console messages of the browser. Pages can detect that they are collected, so this starts with a click. */
export function SessionLog({ launchId }: { launchId: string }) {
  const [collecting, setCollecting] = useState(false);
  if (collecting) return <Log launchId={launchId} />;
  return (
    <>
      <p class="faint small">{t.logHint}</p>
      <div>
        <Button size="small" onClick={() => setCollecting(true)}>
          {t.showLog}
        </Button>
      </div>
    </>
  );
}

/** Continues the log after the last entry that it has. */
function useLog(launchId: string) {
  const log = useRef({ entries: [] as Entry[], after: 0, missing: 0 });
  return useQuery({
    queryKey: ["session-log", launchId],
    gcTime: 0,
    queryFn: async () => {
      const { entries, after, missing } = log.current;
      const params = { path: { launchId }, query: { after } };
      const { items, lastSeq, dropped } = await send(api.GET("/browsers/{launchId}/logs", { params }));
      const all = [...entries, ...items];
      const cut = Math.max(0, all.length - shownEntries);
      log.current = { entries: all.slice(cut), after: lastSeq, missing: missing + dropped + cut };
      return log.current;
    },
    refetchInterval: poll(detailInterval),
  });
}

function Log({ launchId }: { launchId: string }) {
  const { data, error } = useLog(launchId);
  const list = useRef<HTMLOListElement>(null);
  const last = data?.after;
  useEffect(() => list.current?.scrollTo(0, list.current.scrollHeight), [last]);
  if (error && !data) return <ErrorNotice error={error} />;
  if (!data) return <p class="faint">{t.readsLog}</p>;
  if (data.entries.length === 0) return <p class="faint">{t.noLog}</p>;
  return (
    <>
      {data.missing > 0 && <p class="faint small">{t.missingLog(data.missing)}</p>}
      <ol ref={list} class="log" tabIndex={0} aria-label={t.log}>
        {data.entries.map((entry) => (
          <LogEntry key={entry.seq} entry={entry} />
        ))}
      </ol>
    </>
  );
}

const tones = { debug: undefined, info: undefined, warning: "wait", error: "bad" } as const;

function LogEntry({ entry }: { entry: Entry }) {
  const { at, kind, level, text, url, line } = entry;
  return (
    <li>
      <span class="row">
        <time class="faint numeric" dateTime={at}>
          {formatClock(Date.parse(at))}
        </time>
        <Badge tone={tones[level]}>{kind === "console" ? level : t.logKinds[kind]}</Badge>
        {url && (
          <span class="faint truncate grow" title={url}>
            {line ? `${url}:${line}` : url}
          </span>
        )}
      </span>
      <pre>{text}</pre>
    </li>
  );
}
