import { useQuery } from "@tanstack/preact-query";
import { ApiError } from "../../../shared/web/api/errors";
import { Loading } from "../../../shared/web/ui";
import { api, sendFile, slowApi } from "../api";
import { texts } from "../texts/player";
import { Failure, RecordingPage } from "./player";

/** Continues to the viewer of Playwright, which cannot ask for a key or say why there is no trace. */
async function openViewer(sessionId: string): Promise<null> {
  if (!isSecureContext) throw new ApiError(0, "INSECURE_CONTEXT", texts.insecure);
  const viewer = { path: { sessionId, file: "index.html" } };
  await sendFile(api.GET("/sessions/{sessionId}/recording/viewer/{file}", { params: viewer, parseAs: "blob" }));
  const params = { path: { sessionId } };
  const trace = await sendFile(slowApi.GET("/sessions/{sessionId}/recording/trace", { params, parseAs: "stream" }));
  void trace?.cancel(); // the viewer loads it
  const recording = new URL(`sessions/${sessionId}/recording/`, document.baseURI);
  location.replace(`${recording.href}viewer/index.html?trace=${encodeURIComponent(`${recording.href}trace`)}`);
  return null;
}

/** The page that opens the trace of a session. It works with a recording ticket, as the player does. */
export function TraceViewer({ sessionId }: { sessionId: string }) {
  const { error, refetch } = useQuery({
    queryKey: ["trace", sessionId],
    queryFn: () => openViewer(sessionId),
    retry: false,
    refetchOnWindowFocus: false,
  });
  return (
    <RecordingPage title={texts.trace} sessionId={sessionId}>
      {error ? <Failure error={error} sessionId={sessionId} trace onRetry={() => void refetch()} /> : <Loading />}
    </RecordingPage>
  );
}
