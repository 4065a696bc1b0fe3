/**
 * The name of a machine: its host name, with its WORKER_ID if that is another one. Without a host name, the WORKER_ID or
 * the id.
 */
export function machineName(machine: {
  name?: string | null;
  hostName: string | null;
  workerId: string | null;
  machineId: string;
}): string {
  const { name, hostName, workerId, machineId } = machine;
  if (name) return name;
  if (!hostName) return workerId ?? machineId;
  return workerId && workerId !== hostName ? `${hostName} (${workerId})` : hostName;
}
