import { useMutation } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { Button, ErrorNotice, download } from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { texts } from "../texts/sessions";
import { fromOf, type SessionAddress } from "./session-address";

const fields = [
  "day",
  "profileId",
  "profileName",
  "keyId",
  "keyName",
  "sessions",
  "browserHours",
  "bytesSent",
  "bytesReceived",
  "denied",
] as const satisfies readonly (keyof Schema<"UsageDay">)[];

/** A field of a CSV file (RFC 4180). Programs would calculate a text that begins like a formula. */
function csvField(value: string | number | null): string {
  if (typeof value !== "string") return String(value ?? "");
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return `"${text.replaceAll('"', '""')}"`;
}

/** Saves the usage by day, profile and key of the selected time, by default of 30 days. */
export function UsageExport({ address }: { address: SessionAddress }) {
  const saving = useMutation({
    mutationFn: async () => {
      const query = { from: fromOf(address), to: address.to };
      const { items } = await send(api.GET("/v1/license/usage/days", { params: { query } }));
      const lines = [fields.join(","), ...items.map((item) => fields.map((name) => csvField(item[name])).join(","))];
      download("usage.csv", new Blob([lines.map((line) => `${line}\r\n`).join("")], { type: "text/csv" }));
    },
  });
  return (
    <div class="stack tight">
      <Button icon="download" busy={saving.isPending} onClick={() => saving.mutate()}>
        {texts.exportUsage}
      </Button>
      {saving.error ? <ErrorNotice error={saving.error} /> : null}
    </div>
  );
}
