import type { ComponentChildren } from "preact";
import { Loaded, Loading, Meter, Stat, StepChart, networkText } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { NextSteps, useSteps } from "../parts/next-steps";
import { useDayUsage, useLiveUsage, useMemberCount } from "../parts/overview-data";
import { Attention, RecentSessions, Refusals } from "../parts/overview-lists";
import { useProfileStats } from "../parts/profile-data";
import { useSession } from "../session";
import { texts } from "../texts/overview";
import "./overview.css";

/** The state of the organization at a glance. */
export default function Overview() {
  const { organization } = useSession();
  const { pending, steps } = useSteps();
  return (
    <>
      <header class="page-header">
        <div>
          <h1>{texts.title}</h1>
          <p>{texts.subtitle(organization.name)}</p>
        </div>
      </header>
      {/* The steps are above all else, so nothing moves if the rest waits for them. */}
      {pending ? <Loading lines={8} /> : <Panels steps={steps} />}
    </>
  );
}

function Panels({ steps }: Parameters<typeof NextSteps>[0]) {
  return (
    <div class="stack">
      <NextSteps steps={steps} />
      <div class="overview-top">
        <Concurrency />
        <Limits />
      </div>
      <DayChart />
      <div class="columns overview-lists">
        <Refusals />
        <Attention />
      </div>
      <RecentSessions />
    </div>
  );
}

/** The slots in use now, against the limit. */
function Concurrency() {
  const query = useLiveUsage();
  return (
    <section class="panel">
      <h2 class="visually-hidden">{texts.concurrency}</h2>
      <Loaded query={query}>
        {(usage) => (
          <div class="stack">
            <Stat label={texts.slotsInUse} value={usage.current} of={usage.limit ?? texts.unlimited}>
              <Meter label={texts.slotsInUse} value={usage.current} limit={usage.limit} />
              <FreeSlots usage={usage} />
            </Stat>
            <div class="overview-pair">
              <Stat label={texts.running} value={usage.runningSessions} />
              <Stat label={texts.reserved} value={usage.reservedSlots}>
                <span class="faint small">{texts.reservedHint}</span>
              </Stat>
            </div>
          </div>
        )}
      </Loaded>
    </section>
  );
}

function FreeSlots({ usage: { current, limit } }: { usage: Schema<"LicenseUsage"> }) {
  if (limit === null) return null;
  if (current >= limit) return <p class="bad small">{texts.full}</p>;
  return <p class="faint small numeric">{texts.free(limit - current)}</p>;
}

/** The counts of profiles, members and API requests against their limits. */
function Limits() {
  const query = useProfileStats();
  return (
    <section class="panel">
      <h2 class="visually-hidden">{texts.limits}</h2>
      <Loaded query={query} lines={5}>
        {(stats) => (
          <div class="stack">
            <div class="overview-limits">
              <Limited
                label={texts.profiles}
                value={stats.totalProfiles + stats.ephemeralProfiles}
                limit={stats.profileLimit}
              >
                {texts.activeProfiles(stats.activeProfiles)}
                {stats.ephemeralProfiles > 0 && `, ${texts.ephemeral(stats.ephemeralProfiles)}`}
              </Limited>
              <Members limit={stats.memberLimit} />
              <Limited label={texts.requestsMinute} value={stats.apiRpmUsed} limit={stats.apiRpmLimit} advisory>
                {stats.apiRpmRemaining !== null && texts.remaining(stats.apiRpmRemaining)}
              </Limited>
              <Limited label={texts.requestsHour} value={stats.apiRphUsed} limit={stats.apiRphLimit} advisory>
                {stats.apiRphRemaining !== null && texts.remaining(stats.apiRphRemaining)}
              </Limited>
            </div>
            <p class="faint small">{texts.requestsHint}</p>
          </div>
        )}
      </Loaded>
    </section>
  );
}

const count = new Intl.NumberFormat("en");

function Limited({
  label,
  value,
  limit,
  advisory,
  children,
}: {
  label: string;
  value: number;
  limit: number | null;
  advisory?: boolean;
  children?: ComponentChildren;
}) {
  return (
    <Stat label={label} value={count.format(value)} of={limit === null ? texts.unlimited : count.format(limit)}>
      <Meter label={label} value={value} limit={limit} advisory={advisory} />
      {children && <span class="faint small numeric">{children}</span>}
    </Stat>
  );
}

function Members({ limit }: { limit: number | null }) {
  const query = useMemberCount();
  return (
    <Loaded query={query} lines={2}>
      {(members) => <Limited label={texts.members} value={members} limit={limit} />}
    </Loaded>
  );
}

/** Concurrency, limit and refusals of the last 24 hours. */
function DayChart() {
  const query = useDayUsage();
  return (
    <section class="panel overview-chart">
      <header class="row apart">
        <h2>{texts.chart}</h2>
      </header>
      <Loaded query={query} lines={6}>
        {({ points, browserHours, bytesSent, bytesReceived }) => (
          <>
            <StepChart
              label={texts.chartLabel}
              valueLabel={texts.chartValue}
              eventLabel={texts.chartEvents}
              points={points.map((p) => ({
                at: p.at,
                value: p.maximum,
                limit: p.limit,
                events: p.refused,
              }))}
            />
            <p class="faint small">
              {texts.dayUsage(browserHours, networkText({ bytesSent, bytesReceived, denied: 0 }))}
            </p>
          </>
        )}
      </Loaded>
    </section>
  );
}
