import { useQuery, useQueryClient } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import {
  Button,
  ConfirmDialog,
  Loaded,
  Pagination,
  Table,
  Time,
  pageOf,
  toast,
  useAddress,
  type Column,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { useSession } from "../session";
import { texts } from "../texts/settings";
import { personName, useAllMembers } from "./team";

type Invitation = Schema<"Invitation">;

/** The pending invitations; only for owners and admins. */
export function Invitations() {
  const organizationId = useSession().organization.id;
  const [address, change] = useAddress<"page" | "invitations">();
  const [revoking, setRevoking] = useState<Invitation>();
  const page = pageOf(address.invitations);
  const invitations = useQuery({
    queryKey: ["invitations", { page }],
    queryFn: () =>
      send(
        api.GET("/v1/organizations/{organizationId}/invitations", {
          params: { path: { organizationId }, query: { page } },
        }),
      ),
  });
  const columns = useColumns(setRevoking);
  return (
    <section class="stack" aria-labelledby="invitations-title">
      <div>
        <h2 id="invitations-title">{texts.invitations.title}</h2>
        <p class="faint">{texts.invitations.intro}</p>
      </div>
      <Loaded query={invitations} lines={1}>
        {({ items, pagination }) =>
          items.length === 0 ? (
            <p>{texts.invitations.empty}</p>
          ) : (
            <div>
              <Table label={texts.invitations.title} columns={columns} items={items} keyOf={(i) => i.id} />
              <Pagination
                label={texts.invitations.pages}
                info={pagination}
                onPage={(next) =>
                  change({
                    invitations: String(next),
                    page: address.page ?? "",
                  })
                }
              />
            </div>
          )
        }
      </Loaded>
      {revoking && <RevokeDialog invitation={revoking} onClose={() => setRevoking(undefined)} />}
    </section>
  );
}

function useColumns(onRevoke: (invitation: Invitation) => void): Column<Invitation>[] {
  const { organization } = useSession();
  const members = useAllMembers();
  const nameOf = (id: string | null) => {
    const member = members.data?.find((m) => m.id === id);
    return member ? personName(member) : texts.keys.formerMember;
  };
  const t = texts.invitations;
  return [
    {
      id: "email",
      title: t.email,
      look: "title",
      cell: (i) => <span class="strong">{i.email}</span>,
    },
    { id: "role", title: t.role, cell: (i) => texts.roles[i.role] },
    {
      id: "invitedBy",
      title: t.by,
      cell: (i) => (members.data ? nameOf(i.invitedBy) : ""),
    },
    { id: "createdAt", title: t.sent, cell: (i) => <Time at={i.createdAt} /> },
    {
      id: "expiresAt",
      title: t.expires,
      cell: (i) => <Time at={i.expiresAt} />,
    },
    {
      id: "actions",
      title: "",
      look: "fit corner",
      cell: (i) => {
        const allowed = organization.role === "owner" || i.role === "member";
        return (
          <Button
            size="small"
            disabled={!allowed}
            title={allowed ? undefined : t.ownersOnly}
            onClick={() => onRevoke(i)}
          >
            {t.revoke}
          </Button>
        );
      },
    },
  ];
}

function RevokeDialog({ invitation, onClose }: { invitation: Invitation; onClose: () => void }) {
  const organizationId = useSession().organization.id;
  const queries = useQueryClient();
  const revoke = async () => {
    await send(
      api.DELETE("/v1/organizations/{organizationId}/invitations/{invitationId}", {
        params: { path: { organizationId, invitationId: invitation.id } },
      }),
    );
    toast(texts.invitations.revoked);
    void queries.invalidateQueries({ queryKey: ["members"] });
    void queries.invalidateQueries({ queryKey: ["invitations"] });
  };
  return (
    <ConfirmDialog
      title={texts.invitations.revokeTitle(invitation.email)}
      action={texts.invitations.revoke}
      onConfirm={revoke}
      onClose={onClose}
    >
      <p>{texts.invitations.revokeHint}</p>
    </ConfirmDialog>
  );
}
