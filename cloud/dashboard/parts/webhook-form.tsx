import { useQueryClient } from "@tanstack/preact-query";
import { createWebhookEndpoint as rule } from "../../../gen/web/cloud-rules";
import { send } from "../../../shared/web/api/client";
import { ChoicesField } from "../../../shared/web/forms/choices";
import { FormFrame, TextField, useForm } from "../../../shared/web/forms/form";
import { Button, Dialog, toast } from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { texts } from "../texts/webhooks";
import { useIdempotencyKey } from "./once";
import "./webhooks.css";

type Endpoint = Schema<"WebhookEndpoint">;
type Type = Schema<"WebhookEventType">;

const types = Object.entries(texts.types).map(([type, hint]): [string, string] => [type, `${type}: ${hint}`]);

/** Creates an endpoint, or changes the given one. */
export function EndpointDialog({
  endpoint,
  onCreated,
  onClose,
}: {
  endpoint?: Endpoint;
  onCreated: (secret: string) => void;
  onClose: () => void;
}) {
  const queries = useQueryClient();
  const idempotency = useIdempotencyKey();
  const form = useForm({
    rule,
    initial: {
      url: endpoint?.url ?? "",
      description: endpoint?.description ?? "",
      types: endpoint?.types ?? ([] as Type[]),
    },
    body: ({ url, description, types }) => ({
      url,
      description: description || null,
      types: types.length > 0 ? types : null,
    }),
    onSubmit: async (values) => {
      const body = values as Schema<"CreateWebhookEndpointRequest">;
      if (endpoint) {
        await send(
          api.PATCH("/v1/webhooks/endpoints/{endpointId}", { params: { path: { endpointId: endpoint.id } }, body }),
        );
        toast(texts.saved);
      } else {
        // No mutation of the query cache: it would keep the secret in memory.
        const header = { "Idempotency-Key": idempotency(body) };
        onCreated((await send(api.POST("/v1/webhooks/endpoints", { params: { header }, body }))).secret);
      }
      void queries.invalidateQueries({ queryKey: ["webhooks"] });
      onClose();
    },
  });
  const title = endpoint ? texts.editTitle : texts.create;
  return (
    <Dialog title={title} kind="wide" onClose={onClose}>
      <FormFrame form={form} label={title}>
        <TextField
          form={form}
          name="url"
          label={texts.url}
          hint={texts.urlHint}
          type="url"
          placeholder="https://hooks.example.com/svc"
          autocomplete="off"
          spellcheck={false}
          autofocus
        />
        <TextField form={form} name="description" label={texts.description} autocomplete="off" />
        <div class="webhook-events">
          <ChoicesField
            form={form}
            name="types"
            label={texts.events}
            chosen={form.values.types}
            options={types}
            hint={texts.eventsHint}
          />
        </div>
        <div class="row end">
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button type="submit" kind="primary" busy={form.busy} disabled={endpoint && !form.dirty}>
            {endpoint ? texts.save : texts.create}
          </Button>
        </div>
      </FormFrame>
    </Dialog>
  );
}
