import { Loaded, Meter, Stat } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { texts } from "../texts/billing";
import { useLiveUsage, useMemberCount } from "./overview-data";
import { useProfileStats } from "./profile-data";

const count = new Intl.NumberFormat("en");

/** What the organization uses of its effective limits. */
export function BillingUsage({ subscription: s }: { subscription: Schema<"Subscription"> }) {
  const stats = useProfileStats();
  const browsers = useLiveUsage();
  const people = useMemberCount();
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
      <Meter label={texts.usages[name]} value={value ?? 0} limit={limit} advisory={name.startsWith("api")} />
      {Boolean(additional) && base !== null && base !== undefined && (
        <span class="faint small">{texts.extra(base, additional ?? 0)}</span>
      )}
    </Stat>
  );
}
