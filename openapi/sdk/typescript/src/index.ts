export { Svc, Sessions, type LaunchOptions, type SvcOptions } from "./svc.js";
export { SvcCloud, Profiles, type SvcCloudOptions } from "./cloud.js";
export { Session, type HumanRequest } from "./session.js";
export { SessionRecording } from "./recording.js";
export { Files } from "./files.js";
export {
  Conflict,
  Forbidden,
  InvalidRequest,
  LimitReached,
  NotFound,
  RateLimited,
  SvcError,
  Unauthorized,
  Unavailable,
  type ErrorDetail,
} from "./errors.js";
export type { CallOptions, ClientOptions } from "./http.js";
export type { Transport } from "./resume.js";
export type { PlaywrightBrowser, PlaywrightOptions, PuppeteerBrowser, PuppeteerOptions } from "./libraries.js";
export type * from "./types.js";
