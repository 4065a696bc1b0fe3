import { Button, pageOf, useAddress } from "../../../shared/web/ui";
import { texts } from "../texts/audit";
import { personName, useAllKeys, useAllMembers } from "./team";

type Key = "page" | "action" | "actor" | "target" | "from" | "to";

/** The filters of the audit log, in the address. Days are in the reader's time zone. */
export function useAuditFilters() {
  const [address, change] = useAddress<Key>();
  const query = {
    page: pageOf(address.page),
    action: address.action || undefined,
    actorId: address.actor || undefined,
    targetId: address.target || undefined,
    from: startOfDay(address.from, 0),
    to: startOfDay(address.to, 1),
  };
  const filtered = Boolean(address.action || address.actor || address.target || address.from || address.to);
  const clear = () => change({ action: "", actor: "", target: "", from: "", to: "" });
  return { address, query, filtered, change, clear };
}

/** Returns the start of a day such as 2026-11-21, or of a later day. An invalid date in the address is ignored. */
function startOfDay(day: string | undefined, later: number): string | undefined {
  const [year, month, date] = (day ?? "").split("-").map(Number);
  if (!year || !month || !date) return undefined;
  return new Date(year, month - 1, date + later).toISOString();
}

/** The controls of the filters. */
export function AuditFilters({ address, filtered, change, clear }: ReturnType<typeof useAuditFilters>) {
  return (
    <>
      <div class="toolbar audit-filters">
        <ActionFilter value={address.action} change={change} />
        <ActorFilter value={address.actor} change={change} />
        {(["from", "to"] as const).map((name) => (
          <label key={name} class="audit-day">
            <span class="faint">{texts[name]}</span>
            <input
              type="date"
              class="input"
              value={address[name] ?? ""}
              onChange={(event) => change({ [name]: event.currentTarget.value })}
            />
          </label>
        ))}
        {filtered && (
          <Button kind="quiet" icon="close" onClick={clear}>
            {texts.clear}
          </Button>
        )}
      </div>
      {address.target && (
        <p class="audit-target">
          <span class="badge accent">{texts.target(address.target)}</span>
        </p>
      )}
    </>
  );
}

interface FilterProps {
  value: string | undefined;
  change: ReturnType<typeof useAuditFilters>["change"];
}

function ActionFilter({ value = "", change }: FilterProps) {
  const known = Object.entries(texts.actions);
  return (
    <select
      class="select"
      aria-label={texts.action}
      value={value}
      onChange={(event) => change({ action: event.currentTarget.value })}
    >
      <option value="">{texts.allActions}</option>
      {known.map(([action, { label }]) => (
        <option key={action} value={action}>
          {label}
        </option>
      ))}
      {value && !(value in texts.actions) && <option>{value}</option>}
    </select>
  );
}

function ActorFilter({ value = "", change }: FilterProps) {
  const members = useAllMembers().data ?? [];
  const keys = useAllKeys().data ?? [];
  const other = value && !members.some((m) => m.id === value) && !keys.some((k) => k.id === value);
  return (
    <select
      class="select"
      aria-label={texts.actor}
      value={value}
      onChange={(event) => change({ actor: event.currentTarget.value })}
    >
      <option value="">{texts.allActors}</option>
      <optgroup label={texts.members}>
        {members.map((m) => (
          <option key={m.id} value={m.id}>
            {personName(m)}
          </option>
        ))}
      </optgroup>
      <optgroup label={texts.keys}>
        {keys.map((k) => (
          <option key={k.id} value={k.id}>
            {k.name} ({k.lastFour})
          </option>
        ))}
      </optgroup>
      {other && <option value={value}>{texts.otherActor}</option>}
    </select>
  );
}
