import { useQuery } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import {
  Badge,
  Button,
  CodeBlock,
  CopyButton,
  Empty,
  Loaded,
  Pagination,
  Table,
  Time,
  pageOf,
  useAddress,
  type Column,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { texts } from "../texts/settings";

type Build = Schema<"ChromiumRelease">;

const t = texts.builds;
const size = new Intl.NumberFormat("en", {
  style: "unit",
  unit: "megabyte",
  maximumFractionDigits: 1,
});

function useBuilds() {
  const [address, change] = useAddress<"page" | "os" | "arch" | "major" | "sortBy" | "sortOrder">();
  const query = {
    page: pageOf(address.page),
    sortBy: (address.sortBy ?? "publishedAt") as Schema<"ReleaseSortField">,
    sortOrder: (address.sortOrder === "asc" ? "asc" : "desc") as "asc" | "desc",
    os: (address.os || undefined) as Schema<"BuildOs"> | undefined,
    arch: (address.arch || undefined) as Schema<"BuildArch"> | undefined,
    major: Number(address.major) || undefined,
  };
  const builds = useQuery({
    queryKey: ["builds", query],
    queryFn: () => send(api.GET("/v1/chromium/releases", { params: { query } })),
  });
  return { query, builds, change };
}

/** The section with the browser builds that workers can install. */
export function BrowserBuilds() {
  const { query, builds, change } = useBuilds();
  const filtered = Boolean(query.os || query.arch || query.major);
  const clear = () => change({ os: "", arch: "", major: "" });
  const newest = builds.data?.items[0]?.major;
  return (
    <section class="stack" aria-labelledby="builds-title">
      <div>
        <h2 id="builds-title">{t.title}</h2>
        <p class="faint">{t.intro}</p>
      </div>
      <div>
        <Filters query={query} change={change} />
        <Loaded query={builds}>
          {({ items, pagination }) =>
            items.length === 0 ? (
              <Empty
                icon="download"
                title={filtered ? t.noMatch : t.empty}
                action={filtered && <Button onClick={clear}>{t.clear}</Button>}
              >
                {filtered ? t.noMatchHint : t.emptyHint}
              </Empty>
            ) : (
              <>
                <Table
                  label={t.title}
                  columns={columns}
                  items={items}
                  keyOf={(b) => `${b.version} ${b.os} ${b.arch}`}
                  sort={{ by: query.sortBy, order: query.sortOrder }}
                  onSort={({ by, order }) => change({ sortBy: by, sortOrder: order })}
                />
                <Pagination info={pagination} onPage={(page) => change({ page: String(page) })} />
              </>
            )
          }
        </Loaded>
      </div>
      <div class="panel stack tight">
        <h3>{t.install}</h3>
        <p class="faint">{t.installHint}</p>
        <CodeBlock text={t.installCommand(newest ? String(newest) : "VERSION")} label={t.command} />
      </div>
    </section>
  );
}

function Filters({ query, change }: Pick<ReturnType<typeof useBuilds>, "query" | "change">) {
  return (
    <div class="toolbar">
      <select
        class="select"
        aria-label={t.os}
        value={query.os ?? ""}
        onChange={(event) => change({ os: event.currentTarget.value })}
      >
        <option value="">{t.allOs}</option>
        {Object.entries(t.osNames).map(([os, label]) => (
          <option key={os} value={os}>
            {label}
          </option>
        ))}
      </select>
      <select
        class="select"
        aria-label={t.arch}
        value={query.arch ?? ""}
        onChange={(event) => change({ arch: event.currentTarget.value })}
      >
        <option value="">{t.allArch}</option>
        {(["x86_64", "arm64"] satisfies Schema<"BuildArch">[]).map((arch) => (
          <option key={arch}>{arch}</option>
        ))}
      </select>
      <input
        class="input numeric builds-major"
        type="number"
        min={1}
        max={9999}
        aria-label={t.major}
        placeholder={t.major}
        value={query.major ?? ""}
        onChange={(event) => change({ major: event.currentTarget.value })}
      />
    </div>
  );
}

const columns: Column<Build>[] = [
  {
    id: "version",
    title: t.version,
    sortable: true,
    look: "title",
    cell: (b) => (
      <span class="row">
        <span class="strong numeric">{b.version}</span>
        <CopyButton text={t.installCommand(b.version)} label={t.commandOf(b.version)} />
      </span>
    ),
  },
  {
    id: "platform",
    title: t.platform,
    cell: (b) => `${t.osNames[b.os]} ${b.arch}`,
  },
  {
    id: "channel",
    title: t.channel,
    cell: (b) => <Badge tone={b.channel === "stable" ? "good" : undefined}>{t.channelNames[b.channel]}</Badge>,
  },
  {
    id: "sizeBytes",
    title: t.size,
    sortable: true,
    cell: (b) => <span class="numeric">{size.format(b.sizeBytes / 1e6)}</span>,
  },
  {
    id: "publishedAt",
    title: t.published,
    sortable: true,
    cell: (b) => <Time at={b.publishedAt} />,
  },
  {
    id: "sha256",
    title: t.sha256,
    cell: (b) => (
      <span class="row">
        <code title={b.sha256}>{b.sha256.slice(0, 12)}...</code>
        <CopyButton text={b.sha256} label={t.copySha(b.version)} />
      </span>
    ),
  },
];
