import { useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { FormFrame, SelectField, TextField, useForm } from "../../../shared/web/forms/form";
import { Button, withScheme } from "../../../shared/web/ui";
import { navigatePage } from "../../../gen/web/worker-rules";
import { slowApi, type Schema } from "../api";
import { texts } from "../texts/sessions";

const t = texts.drawer;
const rule = { ...navigatePage, required: ["url", "waitUntil"] };

/** Opens a URL in the tab that was active last. */
export function NavigateForm({ launchId, onDone }: { launchId: string; onDone: () => void }) {
  const [loaded, setLoaded] = useState<Schema<"Navigation">>();
  const form = useForm({
    rule,
    initial: { url: "", waitUntil: "load" },
    body: (values) => ({ ...values, url: withScheme(values.url) }),
    onSubmit: async (body) => {
      setLoaded(undefined);
      try {
        const request = body as Schema<"NavigateRequest">;
        const path = { launchId };
        setLoaded(
          await send(
            slowApi.POST("/browsers/{launchId}/navigate", {
              params: { path },
              body: request,
            }),
          ),
        );
      } finally {
        onDone();
      }
    },
  });
  return (
    <FormFrame form={form} label={t.navigate}>
      <div class="navigate">
        <TextField
          form={form}
          name="url"
          label={t.url}
          type="text"
          inputMode="url"
          placeholder="https://example.com/"
          autocomplete="off"
          spellcheck={false}
        />
        <SelectField form={form} name="waitUntil" label={t.waitUntil} options={t.waits} />
        <Button type="submit" busy={form.busy}>
          {t.go}
        </Button>
      </div>
      <p class="small good" role="status" hidden={!loaded}>
        {loaded && t.loaded(loaded.title)}
      </p>
    </FormFrame>
  );
}
