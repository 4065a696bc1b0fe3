import { Badge, Meter, machineName, type Tone } from "../../../shared/web/ui";
import type { Schema } from "../api";
import { texts } from "../texts/machines";

type Machine = Schema<"Machine">;

const tones: Record<Schema<"MachineState">, Tone> = {
  online: "good",
  draining: "wait",
  offline: "bad",
};

/** The slots of a machine that are in use, with reservations. */
function usedSlots(machine: Machine): number {
  return machine.sessions + machine.reservedSlots;
}

/** Whether a machine that could take sessions has no capacity left. */
export function isFull(machine: Machine): boolean {
  return machine.state === "online" && machine.capacity !== null && usedSlots(machine) >= machine.capacity;
}

/** The state of a machine, and whether it needs attention. */
export function MachineBadges({ machine }: { machine: Machine }) {
  return (
    <span class="row">
      <Badge tone={tones[machine.state]} dot>
        {texts.states[machine.state]}
      </Badge>
      {isFull(machine) && <Badge tone="wait">{texts.full}</Badge>}
      {machine.duplicate && <Badge tone="bad">{texts.duplicate}</Badge>}
    </span>
  );
}

/** The sessions of a machine against its capacity. */
export function Capacity({ machine }: { machine: Machine }) {
  const used = usedSlots(machine);
  return (
    <span class="machine-capacity">
      <span class="numeric nowrap">{texts.sessionsOf(used, machine.capacity)}</span>
      {machine.capacity !== null && (
        <Meter label={texts.meter(machineName(machine))} value={used} limit={machine.capacity} />
      )}
    </span>
  );
}

/** Compares versions such as 1.10.0: the newest is first. */
function newestFirst(a: string, b: string): number {
  return b.localeCompare(a, "en", { numeric: true });
}

/** How many machines that are not offline run each version, newest first. */
export function versionCounts(machines: Machine[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const { state, version } of machines)
    if (version && state !== "offline") counts.set(version, (counts.get(version) ?? 0) + 1);
  return [...counts].sort(([a], [b]) => newestFirst(a, b));
}

/** The version of a machine, marked when another machine runs a newer one. */
export function Version({ machine, newest }: { machine: Machine; newest: string | undefined }) {
  if (!machine.version) return <span class="faint nowrap">{texts.notReported}</span>;
  const older = newest !== undefined && newestFirst(machine.version, newest) > 0;
  return (
    <span class="machine-version">
      <span class="numeric">{machine.version}</span>
      {older && <Badge tone="wait">{texts.otherVersion}</Badge>}
    </span>
  );
}
