import { useQuery } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { Loaded, Meter, Stat } from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { useSession } from "../session";
import { texts } from "../texts/billing";

const live = 5_000;
const count = new Intl.NumberFormat("en");

/** What the organization uses of its effective limits. */
export function BillingUsage({ subscription: s }: { subscription: Schema<"Subscription"> }) {
  const stats = useQuery({
    queryKey: ["stats"],
    refetchInterval: live,
    queryFn: () => send(api.GET("/v1/profiles/stats")),
  });
  const browsers = useBrowsers();
  const people = usePeople();
  return (
    <section class="panel stack" aria-labelledby="usage-title">
      <div>
        <h2 id="usage-title">{texts.usage}</h2>
        <p class="faint small">{texts.apiHint}</p>
      </div>
      <Loaded query={stats}>
        {(now) => (
          <div class="columns billing-usage">
            <Usage
              name="profiles"
              value={now.totalProfiles + now.ephemeralProfiles}
              limit={s.effectiveProfileLimit}
              base={s.baseProfileLimit}
              additional={s.additionalProfileLimit}
            />
            <Usage name="browsers" value={browsers.data?.current} limit={s.effectiveProfileLimit} />
            <Usage
              name="members"
              value={people.data}
              limit={s.effectiveMemberLimit}
              base={s.baseMemberLimit}
              additional={s.additionalMemberLimit}
            />
            <Usage
              name="apiRpm"
              value={now.apiRpmUsed}
              limit={s.effectiveApiRpmLimit}
              base={s.baseApiRpmLimit}
              additional={s.additionalApiRpmLimit}
            />
            <Usage
              name="apiRph"
              value={now.apiRphUsed}
              limit={s.effectiveApiRphLimit}
              base={s.baseApiRphLimit}
              additional={s.additionalApiRphLimit}
            />
          </div>
        )}
      </Loaded>
    </section>
  );
}

function useBrowsers() {
  return useQuery({
    queryKey: ["usage", "now"],
    refetchInterval: live,
    queryFn: () => {
      // Only the current number is shown: a short series is enough.
      const from = new Date(Date.now() - 60_000).toISOString();
      return send(
        api.GET("/v1/license/usage", {
          params: { query: { from, step: "1m" } },
        }),
      );
    },
  });
}

/** The members and pending invitations, which count toward the same limit. */
function usePeople() {
  const organizationId = useSession().organization.id;
  const params = { path: { organizationId }, query: { limit: 1 } };
  return useQuery({
    queryKey: ["members", "count"],
    queryFn: async () => {
      const [members, invitations] = await Promise.all([
        send(api.GET("/v1/organizations/{organizationId}/members", { params })),
        send(api.GET("/v1/organizations/{organizationId}/invitations", { params })),
      ]);
      return members.pagination.total + invitations.pagination.total;
    },
  });
}

function Usage({
  name,
  value,
  limit,
  base,
  additional,
}: {
  name: keyof typeof texts.usages;
  value: number | undefined;
  limit: number | null;
  base?: number | null;
  additional?: number;
}) {
  return (
    <Stat
      label={texts.usages[name]}
      value={value === undefined ? "–" : count.format(value)}
      of={limit === null ? texts.unlimited : count.format(limit)}
    >
      <Meter label={texts.usages[name]} value={value ?? 0} limit={limit} />
      {Boolean(additional) && base !== null && base !== undefined && (
        <span class="faint small">{texts.extra(base, additional ?? 0)}</span>
      )}
    </Stat>
  );
}
