import type { components as Cloud } from "../api/cloud.js";
import type { components as Worker, operations as WorkerOperations } from "../api/worker.js";

/** All schemas of the worker, by name. */
export type WorkerSchemas = Worker["schemas"];
/** All schemas of the cloud, by name. */
export type CloudSchemas = Cloud["schemas"];

export type SessionInfo = WorkerSchemas["BrowserSession"];
export type BrowserSettings = Partial<WorkerSchemas["BrowserSettings"]>;
export type LaunchSpec = WorkerSchemas["LaunchSpec"];
export type Proxy = WorkerSchemas["ProxySettings"];
export type BrowserFile = WorkerSchemas["LaunchFile"];
export type Handover = WorkerSchemas["Handover"];
export type LogEntry = WorkerSchemas["PageLogEntry"];
export type StorageState = WorkerSchemas["StorageState"];
export type Recording = NonNullable<WorkerSchemas["Recording"]>;
export type RecordingPart = WorkerSchemas["RecordingPart"];
export type RecordingTicket = WorkerSchemas["RecordingTicket"];
export type SessionFilter = NonNullable<WorkerOperations["listBrowserSessions"]["parameters"]["query"]>;
