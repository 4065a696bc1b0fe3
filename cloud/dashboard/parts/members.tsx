import { useQuery, useQueryClient } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import {
  Badge,
  Button,
  ConfirmDialog,
  Empty,
  Loaded,
  Menu,
  Pagination,
  SearchField,
  Table,
  Time,
  pageOf,
  toast,
  useAddress,
  type Column,
  type MenuItem,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { useManages, useSession } from "../session";
import { texts } from "../texts/settings";
import { Invitations } from "./invitations";
import { InviteDialog, RoleDialog } from "./role-dialogs";
import { personName } from "./team";
import "./lists.css";

type Member = Schema<"Member">;
type Dialogs = { action: "role" | "remove" | "leave"; member: Member };

/** The section with members and invitations. */
export function Members() {
  const manages = useManages();
  const [inviting, setInviting] = useState(false);
  return (
    <div class="stack">
      <section class="stack" aria-labelledby="members-title">
        <div class="row apart top section-header">
          <div class="grow">
            <h2 id="members-title">{texts.members.title}</h2>
            <p class="faint">
              {texts.members.intro} {!manages && texts.members.ask}
            </p>
          </div>
          {manages && (
            <Button kind="primary" icon="plus" onClick={() => setInviting(true)}>
              {texts.members.invite}
            </Button>
          )}
        </div>
        <MemberList />
      </section>
      {manages && <Invitations />}
      {inviting && <InviteDialog onClose={() => setInviting(false)} />}
    </div>
  );
}

const filterNames = ["page", "sortBy", "sortOrder", "search", "role"] as const;

function useMemberList() {
  const organizationId = useSession().organization.id;
  const [address, change] = useAddress<(typeof filterNames)[number]>();
  const query = {
    page: pageOf(address.page),
    sortBy: (address.sortBy ?? "joinedAt") as Schema<"MemberSortField">,
    sortOrder: (address.sortOrder === "desc" ? "desc" : "asc") as "asc" | "desc",
    search: address.search || undefined,
    role: (address.role || undefined) as Schema<"Role"> | undefined,
  };
  const members = useQuery({
    queryKey: ["members", query],
    queryFn: () =>
      send(
        api.GET("/v1/organizations/{organizationId}/members", {
          params: { path: { organizationId }, query },
        }),
      ),
  });
  return { query, members, change };
}

function MemberList() {
  const { query, members, change } = useMemberList();
  const [dialog, setDialog] = useState<Dialogs>();
  const columns = useColumns(setDialog);
  return (
    <div>
      <div class="toolbar">
        <SearchField
          label={texts.members.search}
          value={query.search ?? ""}
          onSearch={(search) => change({ search }, true)}
        />
        <select
          class="select"
          aria-label={texts.members.role}
          value={query.role ?? ""}
          onChange={(event) => change({ role: event.currentTarget.value })}
        >
          <option value="">{texts.members.allRoles}</option>
          {Object.entries(texts.roles).map(([role, label]) => (
            <option key={role} value={role}>
              {label}
            </option>
          ))}
        </select>
      </div>
      <Loaded query={members}>
        {({ items, pagination }) =>
          items.length === 0 ? (
            <Empty icon="users" title={texts.members.empty}>
              {texts.members.emptyHint}
            </Empty>
          ) : (
            <>
              <Table
                label={texts.members.title}
                columns={columns}
                items={items}
                keyOf={(m) => m.id}
                sort={{ by: query.sortBy, order: query.sortOrder }}
                onSort={({ by, order }) => change({ sortBy: by, sortOrder: order })}
              />
              <Pagination info={pagination} onPage={(page) => change({ page: String(page) })} />
            </>
          )
        }
      </Loaded>
      {dialog && <MemberDialog {...dialog} onClose={() => setDialog(undefined)} />}
    </div>
  );
}

function useColumns(open: (dialog: Dialogs) => void): Column<Member>[] {
  const { user } = useSession();
  const itemsOf = useActions(open);
  return [
    {
      id: "name",
      title: texts.members.name,
      sortable: true,
      look: "title",
      cell: (m) => (
        <div>
          <div class="row">
            <span class="strong">{personName(m)}</span>
            {m.id === user.id && <Badge>{texts.members.you}</Badge>}
          </div>
          {m.name && <div class="faint">{m.email}</div>}
        </div>
      ),
    },
    {
      id: "role",
      title: texts.members.role,
      sortable: true,
      cell: (m) => texts.roles[m.role],
    },
    {
      id: "joinedAt",
      title: texts.members.joined,
      sortable: true,
      cell: (m) => <Time at={m.joinedAt} />,
    },
    {
      id: "actions",
      title: "",
      look: "fit corner",
      cell: (m) => {
        const items = itemsOf(m);
        return items.length ? <Menu label={texts.actions(personName(m))} items={items} /> : null;
      },
    },
  ];
}

/** What the user can do with a member: an owner everything, an admin removes members, everyone can leave. */
function useActions(open: (dialog: Dialogs) => void) {
  const { user, organization } = useSession();
  return (member: Member): MenuItem[] => {
    const own = member.id === user.id;
    const items: MenuItem[] = [];
    if (organization.role === "owner")
      items.push({
        label: texts.members.changeRole,
        icon: "edit",
        onSelect: () => open({ action: "role", member }),
      });
    if (own)
      items.push({
        label: texts.members.leave,
        icon: "signOut",
        danger: true,
        onSelect: () => open({ action: "leave", member }),
      });
    else if (organization.role === "owner" || (organization.role === "admin" && member.role === "member"))
      items.push({
        label: texts.members.remove,
        icon: "trash",
        danger: true,
        onSelect: () => open({ action: "remove", member }),
      });
    return items;
  };
}

function MemberDialog({ action, member, onClose }: Dialogs & { onClose: () => void }) {
  const { organization } = useSession();
  const queries = useQueryClient();
  if (action === "role") return <RoleDialog member={member} onClose={onClose} />;
  const leave = action === "leave";
  const name = personName(member);
  const confirm = async () => {
    await send(
      api.DELETE("/v1/organizations/{organizationId}/members/{memberId}", {
        params: {
          path: { organizationId: organization.id, memberId: member.id },
        },
      }),
    );
    if (leave) {
      // A new page load leaves no data of the organization in memory.
      location.assign(new URL("overview", document.baseURI));
      return;
    }
    toast(texts.members.removed(name));
    void queries.invalidateQueries({ queryKey: ["members"] });
    void queries.invalidateQueries({ queryKey: ["invitations"] });
  };
  return (
    <ConfirmDialog
      title={leave ? texts.members.leaveTitle(organization.name) : texts.members.removeTitle(name)}
      action={leave ? texts.members.leave : texts.members.remove}
      name={leave ? organization.name : name}
      onConfirm={confirm}
      onClose={onClose}
    >
      <p>{leave ? texts.members.leaveHint : texts.members.removeHint}</p>
    </ConfirmDialog>
  );
}
