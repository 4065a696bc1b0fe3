import { useQuery, useQueryClient } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { send } from "../../../shared/web/api/client";
import { ApiError } from "../../../shared/web/api/errors";
import { FormFrame, SelectField, TextField, useForm, type Form } from "../../../shared/web/forms/form";
import { Button, CodeBlock, Dialog, Notice, toast } from "../../../shared/web/ui";
import { inviteMember as inviteRule, updateMember as updateRule } from "../../../gen/web/cloud-rules";
import { api, type Schema } from "../api";
import { useSession } from "../session";
import { texts } from "../texts/settings";
import { useSendsMail } from "./auth";
import { useIdempotencyKey } from "./once";
import { personName } from "./team";

type Role = Schema<"Role">;

const roles: [Role, string][] = [
  ["member", texts.roles.member],
  ["admin", texts.roles.admin],
  ["owner", texts.roles.owner],
];

function RoleField<V extends { role: Role }>({ form, only }: { form: Form<V>; only?: Role }) {
  return (
    <SelectField
      form={form}
      name="role"
      label={texts.members.role}
      hint={`${texts.roleHints[form.values.role]}. ${only ? texts.members.onlyOwners : ""}`}
      options={roles.filter(([role]) => !only || role === only)}
    />
  );
}

/** Changes the role of a member. */
export function RoleDialog({ member, onClose }: { member: Schema<"Member">; onClose: () => void }) {
  const { organization, user } = useSession();
  const queries = useQueryClient();
  const own = member.id === user.id;
  const lastOwner = useIsLastOwner(own && member.role === "owner");
  const form = useForm({
    rule: updateRule,
    initial: { role: member.role },
    onSubmit: async (_, { role }) => {
      await send(
        api.PATCH("/v1/organizations/{organizationId}/members/{memberId}", {
          params: {
            path: { organizationId: organization.id, memberId: member.id },
          },
          body: { role },
        }),
      );
      toast(texts.members.changed(personName(member), texts.roles[role]));
      void queries.invalidateQueries({ queryKey: ["members"] });
      void queries.invalidateQueries({ queryKey: ["invitations"] });
      if (own) void queries.invalidateQueries({ queryKey: ["organizations"] });
      onClose();
    },
  });
  return (
    <Dialog title={texts.members.changeRoleTitle(personName(member))} onClose={onClose}>
      <FormFrame form={form} label={texts.members.changeRole}>
        {own && <Notice tone="wait">{lastOwner ? texts.members.lastOwner : texts.members.changeOwn}</Notice>}
        <RoleField form={form} />
        <div class="row end">
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button type="submit" kind="primary" busy={form.busy} disabled={!form.dirty || lastOwner}>
            {texts.members.changeRole}
          </Button>
        </div>
      </FormFrame>
    </Dialog>
  );
}

/** Whether the organization has one owner. The server decides; this only explains it before. */
function useIsLastOwner(enabled: boolean): boolean {
  const organizationId = useSession().organization.id;
  const owners = useQuery({
    queryKey: ["members", "owners"],
    enabled,
    queryFn: () =>
      send(
        api.GET("/v1/organizations/{organizationId}/members", {
          params: {
            path: { organizationId },
            query: { role: "owner", limit: 1 },
          },
        }),
      ),
  });
  return enabled && owners.data?.pagination.total === 1;
}

/** Invites a person by e-mail. */
export function InviteDialog({ onClose }: { onClose: () => void }) {
  const { organization } = useSession();
  const queries = useQueryClient();
  const idempotency = useIdempotencyKey();
  const [link, setLink] = useState<{ email: string; url: string }>();
  const form = useForm({
    rule: inviteRule,
    initial: { email: "", role: "member" as Role },
    onSubmit: async (_, body) => {
      const invitation = await send(
        api.POST("/v1/organizations/{organizationId}/members/invite", {
          params: {
            path: { organizationId: organization.id },
            header: { "Idempotency-Key": idempotency(body) },
          },
          body,
        }),
      );
      void queries.invalidateQueries({ queryKey: ["members"] });
      void queries.invalidateQueries({ queryKey: ["invitations"] });
      if (invitation.acceptUrl) {
        setLink({ email: body.email, url: invitation.acceptUrl });
        return;
      }
      toast(texts.invitations.sentTo(body.email));
      onClose();
    },
  });
  const sendsMail = useSendsMail();
  if (link) return <LinkDialog {...link} onClose={onClose} />;
  const limit = memberLimitOf(form.failure);
  return (
    <Dialog title={texts.invitations.invite} onClose={onClose}>
      <FormFrame form={limit ? { ...form, failure: undefined } : form} label={texts.invitations.invite}>
        {limit && <LimitNotice {...limit} />}
        <TextField form={form} name="email" label={texts.invitations.email} autocomplete="off" />
        <RoleField form={form} only={organization.role === "owner" ? undefined : "member"} />
        <div class="row end">
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button type="submit" kind="primary" icon={sendsMail ? "mail" : undefined} busy={form.busy}>
            {sendsMail ? texts.invitations.send : texts.invitations.createLink}
          </Button>
        </div>
      </FormFrame>
    </Dialog>
  );
}

/** The link of an invitation that no e-mail carries. It is shown once. */
function LinkDialog({ email, url, onClose }: { email: string; url: string; onClose: () => void }) {
  return (
    <Dialog
      title={texts.invitations.linkTitle(email)}
      onClose={onClose}
      footer={
        <Button kind="primary" onClick={onClose}>
          {texts.close}
        </Button>
      }
    >
      <p>{texts.invitations.linkHint}</p>
      <CodeBlock text={url} label={texts.invitations.link} />
    </Dialog>
  );
}

/** The numbers of a refusal at the member limit. */
function memberLimitOf(failure: unknown) {
  if (!(failure instanceof ApiError)) return undefined;
  const detail = failure.details.find((d) => d.field === "memberLimit");
  if (!detail?.constraint) return undefined;
  const { current, limit } = detail.constraint;
  return { current: Number(current), limit: Number(limit) };
}

function LimitNotice({ current, limit }: { current: number; limit: number }) {
  return (
    <Notice tone="bad" title={texts.invitations.limitTitle}>
      <p>{texts.invitations.limit(current, limit)}</p>
      <p>
        <Link href="/billing">{texts.invitations.billing}</Link>
      </p>
    </Notice>
  );
}
