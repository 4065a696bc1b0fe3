import { useQueryClient } from "@tanstack/preact-query";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { send } from "../../../shared/web/api/client";
import { detailInterval } from "../../../shared/web/api/query";
import { FormFrame, SelectField, useForm } from "../../../shared/web/forms/form";
import {
  Badge,
  Button,
  ButtonLink,
  Empty,
  Loaded,
  Notice,
  Table,
  Time,
  machineName,
  toast,
  type Tone,
} from "../../../shared/web/ui";
import { api, type Schema } from "../api";
import { useSession } from "../session";
import { texts } from "../texts/settings";
import { Expiry } from "./api-keys";
import { CreatedKeyDialog } from "./created-key";
import { useIdempotencyKey } from "./once";
import { RevokeKeyDialog } from "./revoke-key";
import { useAllKeys, useMachines } from "./team";
import "./lists.css";

type Key = Schema<"ApiKey">;
type State = "open" | "next" | "wait" | "done";

const list = "/settings/keys";
const tones: Record<State, Tone | undefined> = {
  open: undefined,
  next: "accent",
  wait: "wait",
  done: "good",
};

/** Replaces a key step by step. The state is in the address and on the server, so it can be resumed. */
export function KeyRotation({ oldId, newId }: { oldId: string; newId?: string }) {
  const keys = useAllKeys(detailInterval);
  const [, navigate] = useLocation();
  const [created, setCreated] = useState<Schema<"CreatedApiKey">>();
  return (
    <section class="stack" aria-labelledby="rotation-title">
      <Loaded query={keys}>
        {(all) => {
          const old = all.find((k) => k.id === oldId);
          if (!old) return <Missing kind="old" />;
          // The list has a new key only after its next refresh.
          const fresh = created?.apiKey.id === newId ? created?.apiKey : undefined;
          const next = all.find((k) => k.id === newId) ?? fresh;
          if (newId && !next) return <Missing kind="new" old={old} />;
          return (
            <Steps
              old={old}
              next={next}
              onCreated={(key) => {
                setCreated(key);
                navigate(`${list}?rotate=${oldId}&to=${key.apiKey.id}`, {
                  replace: true,
                });
              }}
            />
          );
        }}
      </Loaded>
      {created && <CreatedKeyDialog created={created} onClose={() => setCreated(undefined)} />}
    </section>
  );
}

function Missing({ kind, old }: { kind: "old" | "new"; old?: Key }) {
  const t = texts.rotation;
  return (
    <Empty
      icon="key"
      title={kind === "old" ? t.missing : t.missingNew}
      action={
        <span class="row">
          {old && <ButtonLink to={`${list}?rotate=${old.id}`}>{t.restart}</ButtonLink>}
          <ButtonLink to={list}>{t.back}</ButtonLink>
        </span>
      }
    >
      {kind === "old" ? t.missingHint : t.missingNewHint}
    </Empty>
  );
}

function Steps({
  old,
  next,
  onCreated,
}: {
  old: Key;
  next: Key | undefined;
  onCreated: (created: Schema<"CreatedApiKey">) => void;
}) {
  const [, navigate] = useLocation();
  const [revoking, setRevoking] = useState(false);
  const before = useMachines(old.id, 100, detailInterval);
  const after = useMachines(next?.id, 100, detailInterval, next !== undefined);
  const t = texts.rotation;
  const online = before.data?.items.filter((m) => m.state !== "offline").length;
  const used = next !== undefined && next.lastUsedAt !== null;
  const verified = used && online === 0;
  const progress: State = !next ? "open" : verified ? "done" : "wait";
  return (
    <>
      <div class="row apart top section-header">
        <div class="grow">
          <h2 id="rotation-title">{t.title(old.name)}</h2>
          <p class="faint">{t.intro}</p>
        </div>
        <ButtonLink to={list} icon="left">
          {t.back}
        </ButtonLink>
      </div>
      <Step title={t.steps.create} state={next ? "done" : "next"}>
        {next ? <Created next={next} /> : <CreateReplacement old={old} onCreated={onCreated} />}
      </Step>
      <Step title={t.steps.update} state={progress}>
        <p>{t.updateHint}</p>
        <MachineList title={t.onOld} none={t.noneOld} query={before} />
        {next && <MachineList title={t.onNew} none={t.noneNew} query={after} />}
        {(before.data?.items.length ?? 0) > (online ?? 0) && <p class="faint small">{t.offlineHint}</p>}
      </Step>
      <Step title={t.steps.verify} state={progress}>
        {verified ? <Notice tone="good" title={t.verified} /> : <p>{used ? t.waitMachines(online ?? 0) : t.waitUse}</p>}
      </Step>
      <Step title={t.steps.revoke} state={verified ? "next" : "open"}>
        <p>{verified ? texts.keys.revokeHint : next ? t.revokeEarly : t.revokeHint}</p>
        {old.expiresAt && (
          <p>
            {t.oldEnds}: <Expiry at={old.expiresAt} />
          </p>
        )}
        <div>
          <Button kind="danger" disabled={!next} onClick={() => setRevoking(true)}>
            {texts.keys.revokeAction}
          </Button>
        </div>
      </Step>
      {revoking && (
        <RevokeKeyDialog
          apiKey={old}
          onClose={() => setRevoking(false)}
          onRevoked={() => {
            toast(t.complete(old.name));
            navigate(list);
          }}
        />
      )}
    </>
  );
}

function Step({ title, state, children }: { title: string; state: State; children: ComponentChildren }) {
  return (
    <div class="panel stack">
      <div class="row apart">
        <h3>{title}</h3>
        <Badge tone={tones[state]} dot>
          {texts.rotation.states[state]}
        </Badge>
      </div>
      {children}
    </div>
  );
}

function Created({ next }: { next: Key }) {
  return (
    <>
      <p>{texts.rotation.createdAs(next.prefix, next.lastFour)}</p>
      <p class="faint small">{texts.rotation.lostKey}</p>
    </>
  );
}

function CreateReplacement({ old, onCreated }: { old: Key; onCreated: (created: Schema<"CreatedApiKey">) => void }) {
  const organizationId = useSession().organization.id;
  const queries = useQueryClient();
  const idempotency = useIdempotencyKey();
  const t = texts.rotation;
  const form = useForm({
    rule: {},
    initial: { expireOldAfterSeconds: "" },
    onSubmit: async (values) => {
      const seconds = values["expireOldAfterSeconds"];
      const body = seconds ? { expireOldAfterSeconds: Number(seconds) } : {};
      const created = await send(
        api.POST("/v1/organizations/{organizationId}/api-keys/{keyId}/rotate", {
          params: {
            path: { organizationId, keyId: old.id },
            header: { "Idempotency-Key": idempotency(body) },
          },
          body,
        }),
      );
      onCreated(created);
      void queries.invalidateQueries({ queryKey: ["keys"] });
    },
  });
  return (
    <FormFrame form={form} label={t.steps.create}>
      <p>{t.createHint(old.expiresAt !== null)}</p>
      <SelectField
        form={form}
        name="expireOldAfterSeconds"
        label={`${t.oldKey} ${t.oldKeyLabel(old.prefix, old.lastFour)}`}
        empty={t.oldKeeps}
        options={t.oldExpires}
      />
      <div>
        <Button type="submit" kind="primary" busy={form.busy}>
          {t.create}
        </Button>
      </div>
    </FormFrame>
  );
}

function MachineList({ title, none, query }: { title: string; none: string; query: ReturnType<typeof useMachines> }) {
  const t = texts.rotation;
  return (
    <div class="stack tight">
      <h4>{title}</h4>
      <Loaded query={query} lines={1}>
        {({ items, pagination }) =>
          items.length === 0 ? (
            <p class="faint">{none}</p>
          ) : (
            <>
              <Table
                label={title}
                items={items}
                keyOf={(m) => m.machineId}
                columns={[
                  {
                    id: "machine",
                    title: t.machine,
                    look: "title",
                    cell: (m) => machineName(m),
                  },
                  {
                    id: "state",
                    title: t.state,
                    cell: (m) => <MachineState machine={m} />,
                  },
                  {
                    id: "lastHeartbeatAt",
                    title: t.lastSeen,
                    cell: (m) => <Time at={m.lastHeartbeatAt} />,
                  },
                ]}
              />
              {pagination.total > items.length && (
                <p class="faint">{texts.keys.more(pagination.total - items.length)}</p>
              )}
            </>
          )
        }
      </Loaded>
    </div>
  );
}

function MachineState({ machine }: { machine: Schema<"Machine"> }) {
  const tone = ({ online: "good", draining: "wait", offline: undefined } as const)[machine.state];
  return (
    <Badge tone={tone} dot>
      {texts.machineStates[machine.state]}
    </Badge>
  );
}
