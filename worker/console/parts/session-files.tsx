import { useMutation, useQuery } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { ApiError } from "../../../shared/web/api/errors";
import { detailInterval, poll } from "../../../shared/web/api/query";
import { ErrorNotice, Loaded, Time, download, formatBytes } from "../../../shared/web/ui";
import { api, sendFile, slowApi, type Schema } from "../api";
import { texts } from "../texts/sessions";
import { Section } from "./drawer-section";
import { SaveButton } from "./save-button";

type Session = Schema<"BrowserSession">;
type File = Schema<"LaunchFile">;
const t = texts.drawer;

/** The downloads of the browser and the uploads for it. A session that has ended and keeps no files shows none. */
export function SessionFiles({ session }: { session: Session }) {
  const path = { sessionId: session.id };
  const files = useQuery({
    queryKey: ["session-files", session.id, session.status],
    queryFn: () => send(api.GET("/sessions/{sessionId}/files", { params: { path, query: { limit: 100 } } })),
    refetchInterval: (query) => (session.status === "running" ? poll(detailInterval)(query) : false),
  });
  if (files.error instanceof ApiError && files.error.status === 404) return null;
  return (
    <Section title={t.files}>
      <Loaded query={files} lines={1}>
        {(list) => <Files session={session} items={list.items} more={list.pagination.hasNext} />}
      </Loaded>
    </Section>
  );
}

/** Returns the file, or the archive of all files. */
function fetchContent(sessionId: string, file: File | undefined): Promise<Blob> {
  if (file === undefined)
    return sendFile(
      slowApi.GET("/sessions/{sessionId}/files.zip", { params: { path: { sessionId } }, parseAs: "blob" }),
    );
  return sendFile(
    slowApi.GET("/sessions/{sessionId}/files/{file}", {
      params: { path: { sessionId, file: file.id } },
      parseAs: "blob",
    }),
  );
}

function Files({ session, items, more }: { session: Session; items: File[]; more: boolean }) {
  const saving = useMutation({
    mutationFn: async (file: File | undefined) => {
      const content = await fetchContent(session.id, file);
      download(file?.name ?? `${session.id.slice(0, 8)}-files.zip`, content);
    },
  });
  if (items.length === 0) return <p class="faint">{t.noFiles}</p>;
  return (
    <>
      <ul class="stack tight session-files" aria-label={t.filesList}>
        {items.map((file) => (
          <li key={file.id} class="row apart">
            <Description file={file} />
            {file.state === "complete" && <SaveButton saving={saving} item={file} label={t.saveFile(file.name)} />}
          </li>
        ))}
      </ul>
      {more && <p class="faint small">{t.moreFiles(items.length)}</p>}
      {items.some((file) => file.state === "complete") && (
        <div class="row">
          <SaveButton saving={saving} item={undefined}>
            {t.saveFiles}
          </SaveButton>
        </div>
      )}
      {saving.error ? <ErrorNotice error={saving.error} /> : null}
    </>
  );
}

function Description({ file }: { file: File }) {
  const state = file.state === "complete" ? "" : `, ${t.state(file.state)}`;
  return (
    <div class="grow">
      <div class="truncate" title={file.name}>
        {file.name}
      </div>
      <div class="faint small">
        {t.source(file.source)}
        {state}, {formatBytes(file.size)}, <Time at={file.createdAt} />
      </div>
    </div>
  );
}
