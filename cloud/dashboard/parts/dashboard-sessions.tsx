import { useQuery, useQueryClient } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { ApiError } from "../../../shared/web/api/errors";
import { poll, summaryInterval } from "../../../shared/web/api/query";
import {
  Badge,
  Button,
  ConfirmDialog,
  Empty,
  Loaded,
  Pagination,
  Table,
  Time,
  pageOf,
  toast,
  useAddress,
  type Column,
  type Sort,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { texts } from "../texts/account";
import { announce, leave, useSignOut } from "./auth";
import { deviceOf } from "./device";

type DashboardSession = Schema<"DashboardSession">;

const pageSize = 20;
const sortFields: readonly string[] = ["createdAt", "lastSeenAt", "expiresAt"];

function deviceName({ userAgent }: DashboardSession): string {
  const { program, system } = deviceOf(userAgent);
  if (!program) return texts.unknownDevice;
  return system ? texts.on(program, system) : program;
}

/** The sort, page and query of the list, from the address. */
function useSessions() {
  const [address, change] = useAddress<"sort" | "order" | "page">();
  const sort: Sort = {
    by: sortFields.includes(address.sort ?? "") ? address.sort! : "lastSeenAt",
    order: address.order === "asc" ? "asc" : "desc",
  };
  const page = pageOf(address.page);
  const query = useQuery({
    queryKey: ["auth-sessions", sort.by, sort.order, page],
    queryFn: () =>
      send(
        api.GET("/v1/auth/sessions", {
          params: {
            query: {
              page,
              limit: pageSize,
              sortBy: sort.by as Schema<"DashboardSessionSortField">,
              sortOrder: sort.order,
            },
          },
        }),
      ),
    refetchInterval: poll(summaryInterval * 2),
    placeholderData: (before) => before,
  });
  return { sort, query, change };
}

/** The list of the user's dashboard sessions. Each can be ended. */
export function DashboardSessions() {
  const { sort, query, change } = useSessions();
  const [ending, setEnding] = useState<DashboardSession>();
  const [everywhere, setEverywhere] = useState(false);
  return (
    <section class="stack" aria-labelledby="dashboard-sessions">
      <div class="row apart">
        <div class="account-text">
          <h2 id="dashboard-sessions">{texts.sessions}</h2>
          <p class="faint">{texts.sessionsHint}</p>
        </div>
        <Button kind="danger" icon="signOut" onClick={() => setEverywhere(true)}>
          {texts.everywhere}
        </Button>
      </div>
      <Loaded query={query}>
        {({ items, pagination }) =>
          items.length === 0 ? (
            <Empty
              icon="user"
              title={texts.noSessions}
              action={<Button onClick={() => change({ page: "" })}>{texts.firstPage}</Button>}
            >
              {texts.noSessionsHint}
            </Empty>
          ) : (
            <div>
              <Table
                label={texts.sessions}
                columns={columns(setEnding)}
                items={items}
                keyOf={(item) => item.id}
                sort={sort}
                onSort={({ by, order }) => change({ sort: by, order })}
              />
              {pagination.totalPages > 1 && (
                <Pagination info={pagination} onPage={(page) => change({ page: String(page) })} />
              )}
            </div>
          )
        }
      </Loaded>
      {ending && <EndSession session={ending} onClose={() => setEnding(undefined)} />}
      {everywhere && <SignOutEverywhere onClose={() => setEverywhere(false)} />}
    </section>
  );
}

function columns(onEnd: (session: DashboardSession) => void): Column<DashboardSession>[] {
  return [
    {
      id: "device",
      title: texts.device,
      look: "title",
      cell: (item) => (
        <span class="row">
          <span class="strong" title={item.userAgent}>
            {deviceName(item)}
          </span>
          {item.current && <Badge tone="accent">{texts.current}</Badge>}
        </span>
      ),
    },
    {
      id: "ipAddress",
      title: texts.address,
      cell: (item) => <span class="mono">{item.ipAddress}</span>,
    },
    {
      id: "lastSeenAt",
      title: texts.lastUse,
      sortable: true,
      cell: (item) => <Time at={item.lastSeenAt} />,
    },
    {
      id: "createdAt",
      title: texts.signedIn,
      sortable: true,
      cell: (item) => <Time at={item.createdAt} />,
    },
    {
      id: "expiresAt",
      title: texts.expires,
      sortable: true,
      cell: (item) => <Time at={item.expiresAt} />,
    },
    {
      id: "actions",
      title: "",
      look: "fit end corner",
      cell: (item) =>
        item.current ? (
          <SignOut />
        ) : (
          <Button
            size="small"
            aria-label={`${texts.end}: ${deviceName(item)}, ${item.ipAddress}`}
            onClick={() => onEnd(item)}
          >
            {texts.end}
          </Button>
        ),
    },
  ];
}

function SignOut() {
  const { signOut, busy } = useSignOut();
  return (
    <Button size="small" busy={busy} onClick={signOut}>
      {texts.signOut}
    </Button>
  );
}

function EndSession({ session, onClose }: { session: DashboardSession; onClose: () => void }) {
  const queries = useQueryClient();
  const end = async () => {
    try {
      await send(
        api.DELETE("/v1/auth/sessions/{sessionId}", {
          params: { path: { sessionId: session.id } },
        }),
      );
    } catch (error) {
      // Ended meanwhile, for example in another tab: that is what the user wants.
      if (!(error instanceof ApiError && error.status === 404)) throw error;
    }
    toast(texts.ended);
    void queries.invalidateQueries({ queryKey: ["auth-sessions"] });
  };
  const device = deviceName(session);
  return (
    <ConfirmDialog title={texts.endOf(device)} action={texts.end} onConfirm={end} onClose={onClose}>
      {texts.endHint(device, session.ipAddress)}
    </ConfirmDialog>
  );
}

function SignOutEverywhere({ onClose }: { onClose: () => void }) {
  return (
    <ConfirmDialog
      title={texts.everywhereTitle}
      action={texts.everywhere}
      onConfirm={async () => {
        await send(api.POST("/v1/auth/sign-out-everywhere"));
        announce("ended");
        leave();
      }}
      onClose={onClose}
    >
      {texts.everywhereHint}
    </ConfirmDialog>
  );
}
