import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/preact-query";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Link, useLocation } from "wouter-preact";
import { send } from "../../../shared/web/api/client";
import { liveInterval, poll } from "../../../shared/web/api/query";
import {
  Badge,
  Button,
  ButtonLink,
  Empty,
  Loaded,
  Menu,
  Pagination,
  Table,
  Time,
  copyText,
  toast,
  useAddress,
  type Column,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import {
  DeleteDialog,
  DuplicateDialog,
  ExportAllDialog,
  LimitNotice,
  exportName,
  exportProfiles,
} from "../parts/profile-actions";
import { BulkDeleteDialog, BulkTagDialog, RunDialog, deleteOne, tagOne } from "../parts/profile-bulk";
import { remainingProfiles, useProfileStats, useSuggestions, type Profile } from "../parts/profile-data";
import { ProfileFilters, isFiltered, queryOf, type FilterKey } from "../parts/profile-filters";
import { ImportDialog } from "../parts/profile-import";
import { LaunchDialog } from "../parts/profile-launch";
import { osNames } from "../parts/profile-options";
import { texts } from "../texts/profiles";
import "./profiles.css";

/** The dialog that is open. */
type Open =
  | { kind: "launch" | "delete" | "duplicate"; profile: Profile }
  | { kind: "bulkDelete" | "bulkTag"; profiles: Profile[] }
  | {
      kind: "run";
      title: string;
      profiles: Profile[];
      action: (profile: Profile) => Promise<unknown>;
    }
  | { kind: "import" | "exportAll" };

/** The list of profiles. */
export default function Profiles() {
  const [address, change] = useAddress<FilterKey>();
  const [dialog, setDialog] = useState<Open>();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const query = queryOf(address);
  const list = useQuery({
    queryKey: ["profiles", "list", query],
    queryFn: () => send(api.GET("/v1/profiles", { params: { query } })),
    refetchInterval: poll(liveInterval),
    placeholderData: keepPreviousData,
  });
  const chosen = (list.data?.items ?? []).filter((p) => selected.has(p.id));
  return (
    <div class="profiles">
      <Header onImport={() => setDialog({ kind: "import" })} onExport={() => setDialog({ kind: "exportAll" })} />
      <ProfileFilters address={address} change={change} />
      {chosen.length > 0 && <SelectionBar chosen={chosen} open={setDialog} onClear={() => setSelected(new Set())} />}
      <Loaded query={list} lines={8}>
        {(data) =>
          data.items.length === 0 ? (
            <NoProfiles
              filtered={isFiltered(address) || query.page > 1}
              onClear={() => change({ search: "", os: "", version: "", tag: "" })}
              onImport={() => setDialog({ kind: "import" })}
            />
          ) : (
            <ProfileTable
              data={data}
              sort={{ by: query.sortBy, order: query.sortOrder }}
              selected={new Set(chosen.map((p) => p.id))}
              onSelect={setSelected}
              open={setDialog}
              change={change}
            />
          )
        }
      </Loaded>
      {dialog && <OpenDialog dialog={dialog} open={setDialog} />}
    </div>
  );
}

function Header({ onImport, onExport }: { onImport: () => void; onExport: () => void }) {
  const stats = useProfileStats();
  const remaining = remainingProfiles(stats.data);
  return (
    <>
      <header class="page-header">
        <div>
          <h1>{texts.title}</h1>
          <p>
            {texts.lead}{" "}
            {stats.data && (
              <span class="nowrap">
                {texts.usage(stats.data.totalProfiles + stats.data.ephemeralProfiles, stats.data.profileLimit)}.
              </span>
            )}
          </p>
        </div>
        <div class="row">
          <Button icon="upload" onClick={onImport}>
            {texts.actions.import}
          </Button>
          <Button icon="download" onClick={onExport} disabled={stats.data?.totalProfiles === 0}>
            {texts.actions.exportAll}
          </Button>
          <ButtonLink to="/profiles/new" kind="primary" icon="plus">
            {texts.newProfile}
          </ButtonLink>
        </div>
      </header>
      {remaining === 0 && (
        <div class="above">
          <LimitNotice limit={stats.data?.profileLimit ?? 0} ephemeral={stats.data?.ephemeralProfiles} />
        </div>
      )}
    </>
  );
}

function NoProfiles({ filtered, onClear, onImport }: { filtered: boolean; onClear: () => void; onImport: () => void }) {
  if (filtered)
    return (
      <Empty icon="search" title={texts.noMatchTitle} action={<Button onClick={onClear}>{texts.clearFilters}</Button>}>
        {texts.noMatchHint}
      </Empty>
    );
  return (
    <Empty
      icon="profile"
      title={texts.noneTitle}
      action={
        <div class="row">
          <ButtonLink to="/profiles/new" kind="primary" icon="plus">
            {texts.newProfile}
          </ButtonLink>
          <Button icon="upload" onClick={onImport}>
            {texts.actions.import}
          </Button>
        </div>
      }
    >
      {texts.noneHint}
    </Empty>
  );
}

/** One profile is confirmed by its name, several by their number. */
function deletionOf(profiles: Profile[]): Open {
  const [profile] = profiles;
  return profile && profiles.length === 1 ? { kind: "delete", profile } : { kind: "bulkDelete", profiles };
}

function SelectionBar({
  chosen,
  open,
  onClear,
}: {
  chosen: Profile[];
  open: (dialog: Open) => void;
  onClear: () => void;
}) {
  return (
    <div class="selection-bar row apart" role="region" aria-label={texts.selected(chosen.length)}>
      <span class="strong" role="status">
        {texts.selected(chosen.length)}
      </span>
      <div class="row">
        <Button size="small" icon="plus" onClick={() => open({ kind: "bulkTag", profiles: chosen })}>
          {texts.actions.addTag}
        </Button>
        <Button size="small" icon="download" onClick={() => exportProfiles(chosen, exportName())}>
          {texts.actions.export}
        </Button>
        <Button size="small" kind="danger" icon="trash" onClick={() => open(deletionOf(chosen))}>
          {texts.actions.delete}
        </Button>
        <Button size="small" kind="quiet" onClick={onClear}>
          {texts.actions.clear}
        </Button>
      </div>
    </div>
  );
}

function ProfileTable({
  data,
  sort,
  selected,
  onSelect,
  open,
  change,
}: {
  data: Schema<"ProfileList">;
  sort: { by: string; order: "asc" | "desc" };
  selected: ReadonlySet<string>;
  onSelect: (selected: Set<string>) => void;
  open: (dialog: Open) => void;
  change: (changes: Partial<Record<FilterKey, string>>) => void;
}) {
  const [, navigate] = useLocation();
  const columns = columnsOf(
    (profile) => <RowMenu profile={profile} open={open} />,
    (tag) => change({ tag }),
  );
  return (
    <>
      <Table
        label={texts.list}
        columns={columns}
        items={data.items}
        keyOf={(p) => p.id}
        nameOf={(p) => p.name}
        sort={sort}
        onSort={({ by, order }) => change({ sort: by, order })}
        onOpen={(p) => navigate(`/profiles/${p.id}`)}
        selected={selected}
        onSelect={onSelect}
      />
      <Pagination info={data.pagination} onPage={(page) => change({ page: String(page) })} />
    </>
  );
}

function columnsOf(menu: (profile: Profile) => ComponentChildren, onTag: (tag: string) => void): Column<Profile>[] {
  return [
    {
      id: "name",
      title: texts.columns.name,
      sortable: true,
      look: "title",
      cell: (p) => (
        <Link href={`/profiles/${p.id}`} class="truncate strong" title={p.name}>
          {p.name}
        </Link>
      ),
    },
    {
      id: "tags",
      title: texts.columns.tags,
      cell: (p) => <Tags tags={p.tags} onTag={onTag} />,
    },
    {
      id: "browserVersion",
      title: texts.columns.browser,
      sortable: true,
      look: "numeric",
      cell: (p) => p.browserVersion,
    },
    {
      id: "device",
      title: texts.columns.device,
      cell: (p) => <Device profile={p} />,
    },
    {
      id: "proxy",
      title: texts.columns.proxy,
      cell: (p) => (p.proxy ? <span title={p.proxy.server}>{texts.yes}</span> : <Faint text={texts.no} />),
    },
    {
      id: "activeSessions",
      title: texts.columns.active,
      cell: (p) =>
        p.activeSessions > 0 ? (
          <Link href={`/sessions?profileId=${p.id}`}>
            <Badge tone="good" dot>
              {texts.running(p.activeSessions)}
            </Badge>
          </Link>
        ) : (
          <Faint text={texts.none} />
        ),
    },
    {
      id: "lastUsedAt",
      title: texts.columns.lastUsed,
      sortable: true,
      cell: (p) => <Time at={p.lastUsedAt} never={texts.never} />,
    },
    {
      id: "updatedAt",
      title: texts.columns.updated,
      sortable: true,
      cell: (p) => <Time at={p.updatedAt} />,
    },
    { id: "menu", title: "", look: "fit corner", cell: menu },
  ];
}

const Faint = ({ text }: { text: string }) => <span class="faint">{text}</span>;

function Tags({ tags, onTag }: { tags: readonly string[]; onTag: (tag: string) => void }) {
  if (tags.length === 0) return <Faint text={texts.none} />;
  const shown = tags.slice(0, 4);
  return (
    <span class="tag-list">
      {shown.map((tag) => (
        <button
          key={tag}
          type="button"
          class="badge accent tag-link"
          aria-label={texts.filterBy(tag)}
          title={tag}
          onClick={() => onTag(tag)}
        >
          {tag}
        </button>
      ))}
      {tags.length > shown.length && (
        <span class="faint small" title={tags.slice(4).join(", ")}>
          +{tags.length - shown.length}
        </span>
      )}
    </span>
  );
}

function Device({ profile }: { profile: Profile }) {
  const os = osNames.find(([value]) => value === profile.os)?.[1];
  const version = profile.windowsVersion ?? profile.osVersion ?? "";
  const { viewport, model } = profile;
  const parts = [os && `${os} ${version}`.trim(), model, viewport && `${viewport.width} × ${viewport.height}`].filter(
    Boolean,
  );
  return parts.length > 0 ? <span class="truncate">{parts.join(", ")}</span> : <Faint text={texts.byDefault} />;
}

function RowMenu({ profile, open }: { profile: Profile; open: (dialog: Open) => void }) {
  const [, navigate] = useLocation();
  return (
    <Menu
      label={texts.actionsOf(profile.name)}
      items={[
        {
          label: texts.actions.launch,
          icon: "play",
          onSelect: () => open({ kind: "launch", profile }),
        },
        {
          label: texts.actions.edit,
          icon: "edit",
          onSelect: () => navigate(`/profiles/${profile.id}`),
        },
        {
          label: texts.actions.duplicate,
          icon: "copy",
          onSelect: () => open({ kind: "duplicate", profile }),
        },
        {
          label: texts.actions.export,
          icon: "download",
          onSelect: () => exportProfiles([profile], `profile-${profile.id}`),
        },
        {
          label: texts.actions.copyId,
          icon: "copy",
          onSelect: () => copyId(profile.id),
        },
        "separator",
        {
          label: texts.actions.delete,
          icon: "trash",
          danger: true,
          onSelect: () => open({ kind: "delete", profile }),
        },
      ]}
    />
  );
}

function copyId(id: string): void {
  copyText(id).then(
    () => toast(texts.idCopied),
    () => toast(texts.idNotCopied(id), "bad"),
  );
}

function OpenDialog({ dialog, open }: { dialog: Open; open: (next: (now?: Open) => Open | undefined) => void }) {
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const { tags } = useSuggestions();
  // A dialog that opened another one must not close that.
  const close = () => open((now) => (now === dialog ? undefined : now));
  const refresh = () => void queries.invalidateQueries({ queryKey: ["profiles"] });
  const run = (title: string, profiles: Profile[], action: (profile: Profile) => Promise<unknown>) =>
    open(() => ({ kind: "run", title, profiles, action }));
  switch (dialog.kind) {
    case "launch":
      return <LaunchDialog profile={dialog.profile} onClose={close} />;
    case "delete":
      return <DeleteDialog profile={dialog.profile} onDeleted={refresh} onClose={close} />;
    case "duplicate":
      return (
        <DuplicateDialog
          profile={dialog.profile}
          onCreated={(created) => navigate(`/profiles/${created.id}`)}
          onClose={close}
        />
      );
    case "bulkDelete": {
      const { profiles } = dialog;
      return (
        <BulkDeleteDialog
          profiles={profiles}
          onConfirm={() => run(texts.delete.running, profiles, deleteOne)}
          onClose={close}
        />
      );
    }
    case "bulkTag": {
      const { profiles } = dialog;
      return (
        <BulkTagDialog
          count={profiles.length}
          tags={tags}
          onConfirm={(tag) => run(texts.tag.running, profiles, (profile) => tagOne(profile, tag))}
          onClose={close}
        />
      );
    }
    case "run":
      return <RunDialog {...dialog} onEnd={refresh} onClose={close} />;
    case "import":
      return <ImportDialog onClose={close} />;
    case "exportAll":
      return <ExportAllDialog onClose={close} />;
  }
}
