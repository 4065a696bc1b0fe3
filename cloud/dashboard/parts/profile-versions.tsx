import { useQuery, useQueryClient } from "@tanstack/preact-query";
import { useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { liveInterval, poll } from "../../../shared/web/api/query";
import { Badge, ConfirmDialog, Empty, Loaded, Menu, Table, Time, toast, type Column } from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { texts } from "../texts/profiles";
import { useMachineNames } from "./fleet";

type Version = Schema<"ProfileDataVersion">;
type Open = { action: "activate" | "delete"; version: Version };

/** The saved versions of a profile's browser data. */
export function ProfileVersions({ profileId }: { profileId: string }) {
  const [dialog, setDialog] = useState<Open>();
  const machines = useMachineNames();
  const versions = useQuery({
    queryKey: ["profiles", "data", profileId],
    queryFn: () =>
      send(
        api.GET("/v1/profiles/{profileId}/data/versions", {
          params: { path: { profileId } },
        }),
      ),
    refetchInterval: poll(liveInterval),
  });
  return (
    <section class="panel stack profile-versions" aria-labelledby="versions-heading">
      <div>
        <h2 id="versions-heading">{texts.data.title}</h2>
        <p class="faint">{texts.data.hint}</p>
      </div>
      <Loaded query={versions} lines={3}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty icon="download" title={texts.data.noneTitle}>
              {texts.data.noneHint}
            </Empty>
          ) : (
            <Table label={texts.data.title} columns={columns(setDialog, machines)} items={items} keyOf={(v) => v.id} />
          )
        }
      </Loaded>
      {dialog && <VersionDialog {...dialog} onClose={() => setDialog(undefined)} />}
    </section>
  );
}

const megabytes = new Intl.NumberFormat("en", { style: "unit", unit: "megabyte", maximumFractionDigits: 2 });

const size = (bytes: number) => <span class="numeric">{megabytes.format(bytes / 1e6)}</span>;

function columns(open: (dialog: Open) => void, machines: Map<string, string>): Column<Version>[] {
  return [
    {
      id: "createdAt",
      title: texts.data.created,
      look: "title",
      cell: (v) => (
        <span class="row">
          <Time at={v.createdAt} />
          {v.state === "current" && (
            <Badge tone="good" dot>
              {texts.data.current}
            </Badge>
          )}
        </span>
      ),
    },
    { id: "size", title: texts.data.size, look: "end", cell: (v) => size(v.sizeBytes) },
    { id: "sent", title: texts.data.sent, look: "end", cell: (v) => size(v.sentBytes) },
    {
      id: "machine",
      title: texts.data.machine,
      cell: (v) => <span title={v.machineId}>{machines.get(v.machineId) ?? v.machineId}</span>,
    },
    {
      id: "actions",
      title: "",
      look: "fit corner",
      cell: (v) => (
        <Menu
          label={texts.data.actionsOf(nameOf(v))}
          items={[
            {
              label: texts.data.activate,
              icon: "refresh",
              disabled: v.state === "current",
              onSelect: () => open({ action: "activate", version: v }),
            },
            {
              label: texts.actions.delete,
              icon: "trash",
              danger: true,
              onSelect: () => open({ action: "delete", version: v }),
            },
          ]}
        />
      ),
    },
  ];
}

const nameOf = (v: Version) => new Date(v.createdAt).toLocaleString("en");

/** Asks before a version becomes the current one or is deleted. */
function VersionDialog({ action, version, onClose }: Open & { onClose: () => void }) {
  const queries = useQueryClient();
  const own = texts.data[`${action}Dialog`];
  const params = { path: { profileId: version.profileId, versionId: version.id } };
  const change = async () => {
    if (action === "activate")
      await send(api.POST("/v1/profiles/{profileId}/data/versions/{versionId}/restore", { params }));
    else await send(api.DELETE("/v1/profiles/{profileId}/data/versions/{versionId}", { params }));
    toast(own.done);
    await queries.invalidateQueries({ queryKey: ["profiles", "data", version.profileId] });
  };
  return (
    <ConfirmDialog
      title={own.title(nameOf(version))}
      action={own.action}
      kind={action === "delete" ? "danger" : "primary"}
      onConfirm={change}
      onClose={onClose}
    >
      <p>{action === "delete" && version.state === "current" ? texts.data.deleteCurrent : own.body}</p>
    </ConfirmDialog>
  );
}
