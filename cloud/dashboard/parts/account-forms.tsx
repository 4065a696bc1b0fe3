import { useMutation, useQueryClient } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { ApiError } from "../../../shared/web/api/errors";
import { FormFrame, TextField, useForm } from "../../../shared/web/forms/form";
import { Badge, Button, ErrorNotice, formatDate, toast } from "../../../shared/web/ui";
import { changePassword, updateUser } from "../../../gen/web/cloud-rules";
import { api, type Schema } from "../api";
import { useSession } from "../session";
import { texts } from "../texts/account";
import { useSendsMail } from "./auth";
import { PasswordField } from "./password-field";

// An omitted name keeps its value, but an empty field would look like a saved one.
const nameRule = { ...updateUser, required: ["name"] };

/** The name, the e-mail address and its verification. */
export function UserSection() {
  const { user } = useSession();
  return (
    <section class="panel stack" aria-labelledby="account-profile">
      <h2 id="account-profile">{texts.profile}</h2>
      <NameForm name={user.name} />
      <dl class="facts">
        <dt>{texts.email}</dt>
        <dd>
          {user.email}{" "}
          <Badge tone={user.emailVerified ? "good" : "wait"}>
            {user.emailVerified ? texts.verified : texts.unverified}
          </Badge>
        </dd>
        <dt>{texts.since}</dt>
        <dd>{formatDate(user.createdAt)}</dd>
      </dl>
      {!user.emailVerified && <Verification email={user.email} />}
    </section>
  );
}

function NameForm({ name }: { name: string }) {
  const queries = useQueryClient();
  const form = useForm({
    rule: nameRule,
    initial: { name },
    body: (values) => ({ name: values.name.trim() }),
    onSubmit: async (body) => {
      await send(
        api.PATCH("/v1/auth/user", {
          body: body as Schema<"UpdateUserRequest">,
        }),
      );
      toast(texts.saved);
      await queries.invalidateQueries({ queryKey: ["session"] });
    },
  });
  return (
    <FormFrame form={form} label={texts.profile}>
      <TextField form={form} name="name" label={texts.name} hint={texts.nameHint} autocomplete="name" />
      <div>
        <Button type="submit" kind="primary" busy={form.busy} disabled={!form.dirty}>
          {texts.save}
        </Button>
      </div>
    </FormFrame>
  );
}

function Verification({ email }: { email: string }) {
  const queries = useQueryClient();
  const resend = useMutation({
    mutationFn: () => send(api.POST("/v1/auth/verify-email/resend")),
    onSuccess: () => toast(texts.sent(email)),
    onError: (error) => {
      // Verified meanwhile, for example in another tab.
      if (error instanceof ApiError && error.status === 409) void queries.invalidateQueries({ queryKey: ["session"] });
    },
  });
  if (!useSendsMail()) return <p class="faint">{texts.noMailHint}</p>;
  return (
    <div class="stack tight">
      <p class="faint">{texts.unverifiedHint}</p>
      {resend.error && <ErrorNotice error={resend.error} />}
      <div>
        <Button icon="mail" busy={resend.isPending} onClick={() => resend.mutate()}>
          {texts.sendAgain}
        </Button>
      </div>
    </div>
  );
}

/** Changes the password. */
export function PasswordSection() {
  const { user } = useSession();
  const [changes, setChanges] = useState(0);
  return (
    <section class="panel stack" aria-labelledby="account-password">
      <div>
        <h2 id="account-password">{texts.password}</h2>
        <p class="faint">{texts.passwordHint}</p>
      </div>
      {/* After a change, a new form is empty. */}
      <PasswordForm key={changes} email={user.email} onChanged={() => setChanges(changes + 1)} />
      <ResetLink email={user.email} />
    </section>
  );
}

const emptyPasswords = { currentPassword: "", newPassword: "", repeated: "" };
const passwordRule = {
  ...changePassword,
  required: [...changePassword.required, "repeated"],
};

function PasswordForm({ email, onChanged }: { email: string; onChanged: () => void }) {
  const queries = useQueryClient();
  const form = useForm({
    rule: passwordRule,
    initial: emptyPasswords,
    body: ({ currentPassword, newPassword }) => ({
      currentPassword,
      newPassword,
    }),
    check: ({ newPassword, repeated }) => ({
      repeated: newPassword === repeated ? undefined : texts.different,
    }),
    onSubmit: async (body) => {
      await send(
        api.POST("/v1/auth/password/change", {
          body: body as Schema<"ChangePasswordRequest">,
        }),
      );
      toast(texts.passwordChanged);
      void queries.invalidateQueries({ queryKey: ["auth-sessions"] });
      onChanged();
    },
  });
  return (
    <FormFrame form={form} label={texts.changePassword}>
      {/* Password managers store the new password for this account. */}
      <input type="text" name="username" autocomplete="username" value={email} readOnly hidden />
      <PasswordField form={form} name="currentPassword" label={texts.currentPassword} kind="current-password" />
      <PasswordField form={form} name="newPassword" label={texts.newPassword} kind="new-password" />
      <PasswordField form={form} name="repeated" label={texts.repeatPassword} kind="new-password" hint="" />
      <div>
        <Button type="submit" kind="primary" busy={form.busy}>
          {texts.changePassword}
        </Button>
      </div>
    </FormFrame>
  );
}

function ResetLink({ email }: { email: string }) {
  const request = useMutation({
    mutationFn: () => send(api.POST("/v1/auth/password/forgot", { body: { email } })),
    onSuccess: () => toast(texts.resetSent(email)),
  });
  return (
    <div class="stack tight">
      {request.error && <ErrorNotice error={request.error} />}
      <div class="row">
        <span class="faint account-text">{texts.noPassword}</span>
        <Button size="small" icon="mail" busy={request.isPending} onClick={() => request.mutate()}>
          {texts.sendReset}
        </Button>
      </div>
    </div>
  );
}
