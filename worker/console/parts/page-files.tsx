import { useMutation } from "@tanstack/preact-query";
import { ErrorNotice, download } from "../../../shared/web/ui";
import { sendFile, slowApi, type Schema } from "../api";
import { texts } from "../texts/sessions";
import { SaveButton } from "./save-button";

type Kind = "pdf" | "png";
const t = texts.drawer;

function fetchFile(launchId: string, kind: Kind): Promise<Blob> {
  const path = { launchId };
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

/** Saves the page that was active last as a PDF or an image. */
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
      </div>
      {saving.error ? <ErrorNotice error={saving.error} /> : null}
    </>
  );
}
