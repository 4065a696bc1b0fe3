import { useMutation } from "@tanstack/preact-query";
import { Button, ErrorNotice } from "../../../shared/web/ui";
import { sendFile, slowApi, type Schema } from "../api";
import { texts } from "../texts/sessions";

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

function save(file: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Saves the page that was active last as a PDF or an image. */
export function PageFiles({ session }: { session: Schema<"BrowserSession"> }) {
  const { mutate, isPending, variables, error } = useMutation({
    mutationFn: async (kind: Kind) => {
      const file = await fetchFile(session.launchId, kind);
      const time = new Date().toISOString().slice(0, 19).replaceAll(":", "-");
      save(file, `${session.id.slice(0, 8)}-${time}.${kind}`);
    },
  });
  const button = (kind: Kind, label: string) => (
    <Button
      size="small"
      icon="download"
      busy={isPending && variables === kind}
      disabled={isPending}
      onClick={() => mutate(kind)}
    >
      {label}
    </Button>
  );
  return (
    <>
      <div class="row">
        {button("pdf", t.pdf)}
        {button("png", t.png)}
      </div>
      {error ? <ErrorNotice error={error} /> : null}
    </>
  );
}
