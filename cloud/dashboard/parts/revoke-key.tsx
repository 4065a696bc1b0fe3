import { useQueryClient } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { ConfirmDialog, Loading, Notice, machineName, toast } from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { useSession } from "../session";
import { texts } from "../texts/settings";
import { useMachines } from "./team";
import "./lists.css";

const shown = 10;

/** Asks before a key is revoked, and names the machines that use it. */
export function RevokeKeyDialog({
  apiKey,
  onRevoked,
  onClose,
}: {
  apiKey: Schema<"ApiKey">;
  onRevoked?: () => void;
  onClose: () => void;
}) {
  const organizationId = useSession().organization.id;
  const queries = useQueryClient();
  const revoke = async () => {
    await send(
      api.DELETE("/v1/organizations/{organizationId}/api-keys/{keyId}", {
        params: { path: { organizationId, keyId: apiKey.id } },
      }),
    );
    toast(texts.keys.revoked(apiKey.name));
    void queries.invalidateQueries({ queryKey: ["keys"] });
    onRevoked?.();
  };
  return (
    <ConfirmDialog
      title={texts.keys.revokeTitle(apiKey.name)}
      action={texts.keys.revokeAction}
      name={apiKey.name}
      onConfirm={revoke}
      onClose={onClose}
    >
      <div class="stack tight">
        <p>
          <code>
            {apiKey.prefix}...{apiKey.lastFour}
          </code>
        </p>
        <p>{texts.keys.revokeHint}</p>
        <UsedBy keyId={apiKey.id} />
      </div>
    </ConfirmDialog>
  );
}

function UsedBy({ keyId }: { keyId: string }) {
  const machines = useMachines(keyId, shown);
  if (machines.error && !machines.data) return <Notice tone="wait">{texts.keys.revokeUnknown}</Notice>;
  if (!machines.data) return <Loading lines={1} />;
  const { items, pagination } = machines.data;
  if (items.length === 0) return <p>{texts.keys.revokeUnused}</p>;
  return (
    <Notice tone="wait" title={texts.keys.revokeUsed(pagination.total)}>
      <ul class="plain-list">
        {items.map((m) => (
          <li key={m.machineId}>
            {m.state === "offline" ? texts.keys.offlineMachine(machineName(m)) : machineName(m)}
          </li>
        ))}
        {pagination.total > shown && <li>{texts.keys.more(pagination.total - shown)}</li>}
      </ul>
    </Notice>
  );
}
