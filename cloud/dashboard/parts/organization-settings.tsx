import { useQueryClient } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { send } from "../../../shared/web/api/client";
import { FormFrame, TextField, useForm } from "../../../shared/web/forms/form";
import { Button, ConfirmDialog, CopyButton, Time, toast } from "../../../shared/web/ui";
import { updateOrganization as rule } from "../../../gen/web/cloud-rules";
import { api } from "../api";
import { useManages, useSession } from "../session";
import { texts } from "../texts/settings";

/** The section with the name, the slug and the deletion of the organization. */
export function OrganizationSettings() {
  const { organization } = useSession();
  const manages = useManages();
  const t = texts.organization;
  return (
    <div class="stack">
      <section class="panel stack" aria-labelledby="organization-title">
        <h2 id="organization-title">{t.title}</h2>
        {manages ? <OrganizationForm /> : <p class="faint">{t.readOnly}</p>}
        <dl class="facts">
          {!manages && (
            <>
              <dt>{texts.organizationName}</dt>
              <dd>{organization.name}</dd>
              <dt>{t.slug}</dt>
              <dd>{organization.slug}</dd>
            </>
          )}
          <dt>{t.id}</dt>
          <dd class="row">
            <code>{organization.id}</code>
            <CopyButton text={organization.id} label={t.copyId} />
          </dd>
          <dt>{t.role}</dt>
          <dd>{texts.roles[organization.role]}</dd>
          <dt>{t.created}</dt>
          <dd>
            <Time at={organization.createdAt} />
          </dd>
        </dl>
      </section>
      <DeleteOrganization />
    </div>
  );
}

function OrganizationForm() {
  const { organization } = useSession();
  const queries = useQueryClient();
  const { name, slug } = organization;
  const form = useForm({
    // The API takes each alone; this form sends both.
    rule: { ...rule, required: ["name", "slug"] },
    initial: { name, slug },
    onSubmit: async (_, body) => {
      await send(
        api.PATCH("/v1/organizations/{organizationId}", {
          params: { path: { organizationId: organization.id } },
          body,
        }),
      );
      await queries.invalidateQueries({ queryKey: ["organizations"] });
      toast(texts.saved);
    },
  });
  return (
    <FormFrame form={form} label={texts.organization.title}>
      <div class="columns">
        <TextField form={form} name="name" label={texts.organizationName} autocomplete="organization" />
        <TextField
          form={form}
          name="slug"
          label={texts.organization.slug}
          hint={texts.organization.slugHint}
          autocomplete="off"
        />
      </div>
      <div>
        <Button type="submit" kind="primary" busy={form.busy} disabled={!form.dirty}>
          {texts.save}
        </Button>
      </div>
    </FormFrame>
  );
}

function DeleteOrganization() {
  const { organization } = useSession();
  const [open, setOpen] = useState(false);
  const t = texts.organization;
  const owner = organization.role === "owner";
  const remove = async () => {
    await send(
      api.DELETE("/v1/organizations/{organizationId}", {
        params: {
          path: { organizationId: organization.id },
          query: { confirmSlug: organization.slug },
        },
      }),
    );
    // A new page load leaves no data of the organization in memory.
    location.assign(new URL("overview", document.baseURI));
  };
  const facts = (
    <div class="stack tight">
      {t.deletes.map((text) => (
        <p key={text}>{text}</p>
      ))}
      <p>
        {t.deletePaid} <Link href="/billing">{t.toBilling}</Link>
      </p>
    </div>
  );
  return (
    <section class="panel stack" aria-labelledby="delete-title">
      <h2 id="delete-title">{t.deleteTitle}</h2>
      {owner ? facts : <p class="faint">{t.deleteHint}</p>}
      {owner && (
        <div>
          <Button kind="danger" icon="trash" onClick={() => setOpen(true)}>
            {t.delete}
          </Button>
        </div>
      )}
      {open && (
        <ConfirmDialog
          title={t.confirmTitle(organization.name)}
          action={t.delete}
          name={organization.name}
          onConfirm={remove}
          onClose={() => setOpen(false)}
        >
          {facts}
        </ConfirmDialog>
      )}
    </section>
  );
}
