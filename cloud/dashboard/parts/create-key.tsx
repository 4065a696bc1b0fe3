import { useQueryClient } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { ApiError } from "../../../shared/web/api/errors";
import { FormFrame, TextField, useForm } from "../../../shared/web/forms/form";
import { Button, Dialog, Notice } from "../../../shared/web/ui";
import { createApiKey as rule } from "../../../gen/web/cloud-rules";
import { api, type Schema } from "../api";
import { useSession } from "../session";
import { texts } from "../texts/settings";
import { ExpiryField } from "./expiry-field";
import { useIdempotencyKey } from "./once";

/** Creates an organization key. The result has the full key, so the caller must not store it. */
export function CreateKeyForm({
  name = "",
  onCreated,
  onCancel,
}: {
  name?: string;
  onCreated: (created: Schema<"CreatedApiKey">) => void;
  onCancel?: () => void;
}) {
  const organizationId = useSession().organization.id;
  const queries = useQueryClient();
  const idempotency = useIdempotencyKey();
  const form = useForm({
    rule,
    initial: { name, expiresAt: null as string | null },
    onSubmit: async (values) => {
      const body = values as Schema<"CreateApiKeyRequest">;
      // No mutation of the query cache: it would keep the full key in memory.
      const created = await send(
        api.POST("/v1/organizations/{organizationId}/api-keys", {
          params: {
            path: { organizationId },
            header: { "Idempotency-Key": idempotency(body) },
          },
          body,
        }),
      );
      void queries.invalidateQueries({ queryKey: ["keys"] });
      onCreated(created);
    },
  });
  return (
    <FormFrame form={form} label={texts.keys.create}>
      {wasLost(form.failure) && <Notice tone="wait">{texts.keys.lost}</Notice>}
      <div class="columns">
        <TextField form={form} name="name" label={texts.keys.name} hint={texts.keys.nameHint} autocomplete="off" />
        <ExpiryField form={form} />
      </div>
      <div class="row end">
        {onCancel && <Button onClick={onCancel}>{texts.cancel}</Button>}
        <Button type="submit" kind="primary" busy={form.busy}>
          {texts.keys.create}
        </Button>
      </div>
    </FormFrame>
  );
}

/** Whether an earlier try created the key, but its response did not arrive. */
function wasLost(failure: unknown): boolean {
  return failure instanceof ApiError && failure.details.some((d) => d.constraint?.["keyId"] !== undefined);
}

/** Creates an organization key in a dialog. */
export function CreateKeyDialog({
  onCreated,
  onClose,
}: {
  onCreated: (created: Schema<"CreatedApiKey">) => void;
  onClose: () => void;
}) {
  return (
    <Dialog title={texts.keys.create} onClose={onClose}>
      <CreateKeyForm onCreated={onCreated} onCancel={onClose} />
    </Dialog>
  );
}

/** Changes the name and the expiry of a key. */
export function EditKeyDialog({ apiKey, onClose }: { apiKey: Schema<"ApiKey">; onClose: () => void }) {
  const organizationId = useSession().organization.id;
  const queries = useQueryClient();
  const form = useForm({
    rule,
    initial: { name: apiKey.name, expiresAt: apiKey.expiresAt },
    onSubmit: async (body) => {
      // An unchanged expiry is not sent: the control has no seconds, and a past one would be refused.
      const { expiresAt, ...rest } = body as { expiresAt?: string | null };
      await send(
        api.PATCH("/v1/organizations/{organizationId}/api-keys/{keyId}", {
          params: { path: { organizationId, keyId: apiKey.id } },
          body: expiresAt === apiKey.expiresAt ? rest : { ...rest, expiresAt },
        }),
      );
      await queries.invalidateQueries({ queryKey: ["keys"] });
      onClose();
    },
  });
  return (
    <Dialog title={texts.keys.editTitle(apiKey.name)} onClose={onClose}>
      <FormFrame form={form} label={texts.keys.edit}>
        <TextField form={form} name="name" label={texts.keys.name} autocomplete="off" />
        <ExpiryField form={form} />
        <div class="row end">
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button type="submit" kind="primary" busy={form.busy} disabled={!form.dirty}>
            {texts.save}
          </Button>
        </div>
      </FormFrame>
    </Dialog>
  );
}
