import { useMutation } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { ErrorNotice, download } from "../../../shared/web/ui";
import { sendFile, slowApi, type Schema } from "../api";
import { texts } from "../texts/sessions";
import { SaveButton } from "./save-button";

/** The extension of the saved file; json is the storage state. */
type Kind = "pdf" | "png" | "json";
const t = texts.drawer;

async function fetchFile(launchId: string, kind: Kind): Promise<Blob> {
  const path = { launchId };
  if (kind === "json") {
    const state = await send(slowApi.GET("/browsers/{launchId}/state", { params: { path } }));
    return new Blob([JSON.stringify(state, null, 2)], { type: "application/json" });
  }
  if (kind === "pdf")
    return sendFile(
      slowApi.GET("/browsers/{launchId}/pdf", {
        params: { path, query: { printBackground: true } },
        parseAs: "blob",
      }),
    );
  return sendFile(
    slowApi.GET("/browsers/{launchId}/screenshot", {
      params: { path, query: { format: "png", fullPage: true } },
      parseAs: "blob",
    }),
  );
}

/** Saves the page that was active last as a PDF or an image, or the storage state of the browser. */
export function PageFiles({ session }: { session: Schema<"BrowserSession"> }) {
  const saving = useMutation({
    mutationFn: async (kind: Kind) => {
      const file = await fetchFile(session.launchId, kind);
      const time = new Date().toISOString().slice(0, 19).replaceAll(":", "-");
      download(`${session.id.slice(0, 8)}-${time}.${kind}`, file);
    },
  });
  return (
    <>
      <div class="row">
        <SaveButton saving={saving} item="pdf">
          {t.pdf}
        </SaveButton>
        <SaveButton saving={saving} item="png">
          {t.png}
        </SaveButton>
        <SaveButton saving={saving} item="json">
          {t.storageState}
        </SaveButton>
      </div>
      {saving.error ? <ErrorNotice error={saving.error} /> : null}
    </>
  );
}
