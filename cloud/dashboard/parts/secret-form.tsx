import { useQuery, useQueryClient } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import {
  CheckField,
  Field,
  FormFrame,
  SelectField,
  TextArea,
  TextField,
  useForm,
} from "../../../shared/web/forms/form";
import type { Form } from "../../../shared/web/forms/form";
import { linesOf } from "../../../shared/web/forms/lines";
import { Button, Dialog, Loaded, toast } from "../../../shared/web/ui";
import { createSecret, updateSecret } from "../../../gen/web/cloud-rules";
import { api, type Schema } from "../api";
import { texts } from "../texts/secrets";
import { useIdempotencyKey } from "./once";
import { PasswordField } from "./password-field";
import { allPages } from "./team";
import "./secret-form.css";

type Secret = Schema<"Secret">;

const emptyValues = {
  name: "",
  username: "",
  password: "",
  removePassword: false,
  totpSeed: "",
  removeTotp: false,
  origins: "",
  scope: "all",
  profileIds: [] as string[],
};

type Values = typeof emptyValues;

const valuesOf = (secret: Secret): Values => ({
  ...emptyValues,
  name: secret.name,
  username: secret.username ?? "",
  origins: secret.origins.join("\n"),
  scope: secret.profileIds ? "some" : "all",
  profileIds: secret.profileIds ?? [],
});

/** The body of a request; an empty password or seed is not sent, and so not changed. */
function bodyOf(values: Values) {
  return {
    name: values.name,
    username: values.username || null,
    origins: linesOf(values.origins),
    profileIds: values.scope === "some" ? values.profileIds : null,
    ...(values.removePassword ? { password: null } : values.password ? { password: values.password } : {}),
    ...(values.removeTotp ? { totpSeed: null } : values.totpSeed ? { totpSeed: values.totpSeed } : {}),
  };
}

/** Creates a secret, or changes the given one. */
export function SecretDialog({ secret, onClose }: { secret?: Secret; onClose: () => void }) {
  const queries = useQueryClient();
  const idempotency = useIdempotencyKey();
  const form = useForm<Values>({
    rule: secret ? { ...updateSecret, required: createSecret.required } : createSecret,
    initial: secret ? valuesOf(secret) : emptyValues,
    body: bodyOf,
    onSubmit: async (_, values) => {
      const body = bodyOf(values);
      // No mutation of the query cache: it would keep the password in memory.
      const saved = await (secret
        ? send(api.PATCH("/v1/secrets/{secretId}", { params: { path: { secretId: secret.id } }, body }))
        : send(api.POST("/v1/secrets", { params: { header: { "Idempotency-Key": idempotency(body) } }, body })));
      void queries.invalidateQueries({ queryKey: ["secrets"] });
      toast(texts.saved(saved.name));
      onClose();
    },
  });
  const title = secret ? texts.editTitle(secret.name) : texts.create;
  return (
    <Dialog title={title} kind="wide" onClose={onClose}>
      <FormFrame form={form} label={title}>
        <Credentials form={form} secret={secret} />
        <TextArea form={form} name="origins" label={texts.origins} hint={texts.originsHint} />
        <ProfilesField form={form} />
        <div class="row end">
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button type="submit" kind="primary" busy={form.busy} disabled={secret && !form.dirty}>
            {secret ? texts.save : texts.create}
          </Button>
        </div>
      </FormFrame>
    </Dialog>
  );
}

function Credentials({ form, secret }: { form: Form<Values>; secret: Secret | undefined }) {
  const keep = (stored: boolean | undefined, hint?: string) => (stored ? texts.keep : hint);
  return (
    <div class="columns">
      <TextField
        form={form}
        name="name"
        label={texts.name}
        hint={texts.nameHint}
        autocomplete="off"
        spellcheck={false}
        autofocus
      />
      <TextField
        form={form}
        name="username"
        label={texts.username}
        hint={texts.usernameHint}
        autocomplete="off"
        spellcheck={false}
      />
      <div class="stack tight">
        <PasswordField
          form={form}
          name="password"
          label={texts.password}
          kind="new-password"
          hint={keep(secret?.hasPassword, "")}
        />
        {secret?.hasPassword && (
          <CheckField form={form} name="removePassword" label={texts.remove(texts.passwordName)} />
        )}
      </div>
      <div class="stack tight">
        <PasswordField
          form={form}
          name="totpSeed"
          label={texts.totpSeed}
          kind="new-password"
          hint={keep(secret?.hasTotp, texts.totpHint)}
        />
        {secret?.hasTotp && <CheckField form={form} name="removeTotp" label={texts.remove(texts.totpName)} />}
      </div>
    </div>
  );
}

/** The profiles that may use the secret. */
function ProfilesField({ form }: { form: Form<Values> }) {
  return (
    <>
      <SelectField
        form={form}
        name="scope"
        label={texts.profiles}
        options={[
          ["all", texts.allProfiles],
          ["some", texts.someProfiles],
        ]}
      />
      {form.values.scope === "some" && (
        <Field form={form} name="profileIds" label={texts.someProfiles} hint={texts.profilesHint}>
          {(control) => (
            <div {...control} class="secret-profiles stack tight" role="group" aria-label={texts.someProfiles}>
              <Choices form={form} />
            </div>
          )}
        </Field>
      )}
    </>
  );
}

function Choices({ form }: { form: Form<Values> }) {
  const { profileIds } = form.values;
  const profiles = useQuery({
    queryKey: ["profiles", "all"],
    queryFn: () =>
      allPages((page) =>
        send(api.GET("/v1/profiles", { params: { query: { page, limit: 100, sortBy: "name", sortOrder: "asc" } } })),
      ),
  });
  const toggle = (id: string, checked: boolean) =>
    form.set("profileIds", checked ? [...profileIds, id] : profileIds.filter((other) => other !== id));
  return (
    <Loaded query={profiles}>
      {(items) =>
        items.length === 0 ? (
          <p class="faint">{texts.unknownProfiles}</p>
        ) : (
          <>
            {items.map((profile) => (
              <label key={profile.id} class="check">
                <input
                  type="checkbox"
                  checked={profileIds.includes(profile.id)}
                  onChange={(event) => toggle(profile.id, event.currentTarget.checked)}
                />
                <span>{profile.name}</span>
              </label>
            ))}
          </>
        )
      }
    </Loaded>
  );
}
