import { send } from "../../../shared/web/api/client";
import { FormFrame, TextField, useForm } from "../../../shared/web/forms/form";
import { Button } from "../../../shared/web/ui";
import { createOrganization as rule } from "../../../gen/web/cloud-rules";
import { api, type Schema } from "../api";
import { texts } from "../texts/settings";

/** Creates an organization, which becomes the active one. */
export function NewOrganizationForm({
  onCreated,
}: {
  onCreated: (id: string) => Promise<unknown>;
}) {
  const form = useForm({
    rule,
    initial: { name: "" },
    onSubmit: async (body) => {
      const created = await send(
        api.POST("/v1/organizations", {
          body: body as Schema<"CreateOrganizationRequest">,
        }),
      );
      await onCreated(created.id);
    },
  });
  return (
    <FormFrame form={form} label={texts.createOrganization}>
      <TextField
        form={form}
        name="name"
        label={texts.organizationName}
        autocomplete="organization"
      />
      <Button type="submit" kind="primary" busy={form.busy}>
        {texts.createOrganization}
      </Button>
    </FormFrame>
  );
}
