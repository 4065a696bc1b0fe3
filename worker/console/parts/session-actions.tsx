import { useQueryClient } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { ApiError } from "../../../shared/web/api/errors";
import { ConfirmDialog, toast } from "../../../shared/web/ui";
import { api, slowApi, type Schema } from "../api";
import { texts } from "../texts/sessions";

type Session = Schema<"BrowserSession">;

/** The pages of a browser, or of its recording, that open in another tab. */
export type BrowserPage = "view" | "devtools" | "browser" | "recording" | "trace";

export const nameOf = (session: Session): string => session.name || session.profileName || session.profileId;

/** Returns a fresh address: the token in it opens only one page. */
export async function addressOf(session: Session, page: BrowserPage): Promise<string> {
  if (page === "browser") {
    const path = { launchId: session.launchId };
    const ticket = await send(api.POST("/browsers/{launchId}/view-ticket", { params: { path } }));
    return ticket.controlUrl;
  }
  const path = { sessionId: session.id };
  if (page === "recording" || page === "trace") {
    const ticket = await send(api.POST("/sessions/{sessionId}/recording/ticket", { params: { path } }));
    return (page === "trace" && ticket.viewerUrl) || ticket.url;
  }
  const now = await send(api.GET("/sessions/{sessionId}", { params: { path } }));
  const url = page === "view" ? now.viewUrl : now.devtoolsFrontendUrl;
  if (url) return url;
  const ended = now.status !== "running";
  throw new ApiError(404, "RESOURCE_NOT_FOUND", ended ? texts.hasEnded : texts.noDevtools);
}

/** Opens a page of the browser. The tab opens within the click, else the web browser blocks it. */
export async function openPage(session: Session, page: BrowserPage): Promise<void> {
  const tab = open("", "_blank");
  if (!tab) throw new ApiError(0, "POPUP_BLOCKED", texts.popupBlocked);
  try {
    tab.document.title = texts.opening;
    const address = await addressOf(session, page);
    tab.opener = null;
    tab.location.replace(address);
  } catch (error) {
    tab.close();
    throw error;
  }
}

function report(session: Session): void {
  if (session.dataSaved === false) toast(texts.endedNotSaved(session.dataNotSavedReason), "bad");
  else toast(session.dataSaved ? texts.endedSaved : texts.ended);
}

/** Asks, then ends the session. */
export function EndDialog({ session, onClose }: { session: Session; onClose: () => void }) {
  const queries = useQueryClient();
  const end = async () => {
    const path = { sessionId: session.id };
    const ended = await send(slowApi.DELETE("/sessions/{sessionId}", { params: { path } }));
    queries.setQueryData(["session", session.id], ended);
    for (const key of ["sessions", "status", "live"]) void queries.invalidateQueries({ queryKey: [key] });
    report(ended);
  };
  return (
    <ConfirmDialog title={texts.endTitle(nameOf(session))} action={texts.end} onConfirm={end} onClose={onClose}>
      <p>{texts.endHint}</p>
    </ConfirmDialog>
  );
}
