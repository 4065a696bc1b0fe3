import { useMutation, useQueryClient } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { Button, ErrorNotice, download } from "../../../shared/web/ui";
import { sendFile, slowApi, type Schema } from "../api";
import { texts } from "../texts/sessions";
import { Section } from "./drawer-section";
import { SaveButton } from "./save-button";
import { nameOf, type BrowserPage } from "./session-actions";

type Session = Schema<"BrowserSession">;
const t = texts.drawer;
const scriptLanguages = ["playwright-ts", "playwright-py", "selenium-py"] as const;

/** The buttons that play the recording of a session and show its trace, once it has ended. */
export function RecordingButtons({
  session,
  onOpen,
}: {
  session: Session;
  onOpen: (session: Session, page: BrowserPage) => void;
}) {
  const { recording } = session;
  if (!recording?.url || recording.state === "recording") return null;
  const pages: BrowserPage[] = [];
  if (recording.video || recording.events) pages.push("recording"); // the player has no frames
  if (recording.viewerUrl) pages.push("trace");
  return pages.map((page) => {
    const name = page === "trace" ? texts.trace : texts.recording;
    return (
      <Button
        key={page}
        size="small"
        icon="play"
        title={texts.newTab}
        aria-label={`${name}: ${nameOf(session)}`}
        onClick={() => onOpen(session, page)}
      >
        {name}
      </Button>
    );
  });
}

/** The script of what was done in a session with a trace, for the languages of tests. */
export function SessionScript({ session }: { session: Session }) {
  const saving = useMutation({
    mutationFn: async (language: Schema<"ScriptLanguage">) => {
      const params = { path: { sessionId: session.id }, query: { language } };
      const text = await sendFile(slowApi.GET("/sessions/{sessionId}/recording/script", { params, parseAs: "blob" }));
      download(language === "playwright-ts" ? "session.spec.ts" : "test_session.py", text);
    },
  });
  if (!session.recording?.trace) return null;
  return (
    <Section title={t.script}>
      <div class="row">
        {scriptLanguages.map((language) => (
          <SaveButton key={language} saving={saving} item={language}>
            {t.scriptLanguage[language]}
          </SaveButton>
        ))}
      </div>
      {saving.error ? <ErrorNotice error={saving.error} /> : null}
    </Section>
  );
}

/** The state of the recording of a running session, with the button that starts or stops it. */
export function SessionRecording({ session }: { session: Session }) {
  const queries = useQueryClient();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const { recording } = session;
  const params = { path: { launchId: session.launchId } };
  const change = async (request: () => Promise<unknown>) => {
    setBusy(true);
    setError(undefined);
    await request().catch(setError);
    await queries.invalidateQueries({ queryKey: ["session", session.id] });
    setBusy(false);
  };
  const start = () =>
    change(() =>
      send(slowApi.POST("/browsers/{launchId}/recording", { params, body: { record: ["video", "events"] } })),
    );
  const stop = () => change(() => send(slowApi.DELETE("/browsers/{launchId}/recording", { params })));
  return (
    <>
      <div class="row apart">
        <span>{recording ? t.recordingState(recording) : t.notRecorded}</span>
        {recording?.state === "recording" && (
          <Button size="small" icon="stop" busy={busy} onClick={() => void stop()}>
            {t.stopRecording}
          </Button>
        )}
        {!recording?.url && (
          <Button size="small" icon="play" busy={busy} onClick={() => void start()}>
            {t.startRecording}
          </Button>
        )}
      </div>
      {error ? <ErrorNotice error={error} /> : null}
    </>
  );
}
