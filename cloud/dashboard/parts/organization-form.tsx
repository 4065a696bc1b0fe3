import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { FormFrame, TextField, useForm } from "../../../shared/web/forms/form";
import { Button } from "../../../shared/web/ui";
import { createOrganization as rule } from "../../../gen/web/cloud-rules";
import { api, type Schema } from "../api";
import { texts } from "../texts/account";
import { useIdempotencyKey } from "./once";

/** Creates an organization, which becomes the active one. `secondary` is a button beside the main one. */
export function NewOrganizationForm({
  onCreated,
  secondary,
}: {
  onCreated: (id: string) => Promise<unknown>;
  secondary?: ComponentChildren;
}) {
  const idempotency = useIdempotencyKey();
  const created = useRef<Schema<"Organization">>();
  const form = useForm({
    rule,
    initial: { name: "" },
    body: ({ name }) => ({ name: name.trim() }),
    onSubmit: async (body) => {
      const request = body as Schema<"CreateOrganizationRequest">;
      const params = { header: { "Idempotency-Key": idempotency(request) } };
      // If only what follows fails, the next try must not create a second organization.
      if (created.current?.name !== request.name)
        created.current = await send(api.POST("/v1/organizations", { params, body: request }));
      await onCreated(created.current.id);
    },
  });
  return (
    <FormFrame form={form} label={texts.createOrganization}>
      <TextField
        form={form}
        name="name"
        label={texts.organizationName}
        hint={texts.organizationNameHint}
        autocomplete="organization"
        autofocus
      />
      <div class="row">
        <Button type="submit" kind="primary" busy={form.busy}>
          {texts.createOrganization}
        </Button>
        {secondary}
      </div>
    </FormFrame>
  );
}
