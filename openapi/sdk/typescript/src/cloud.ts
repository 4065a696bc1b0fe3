import { NotFound } from "./errors.js";
import { Http, once, type CallOptions, type ClientOptions } from "./http.js";
import type { operations } from "../api/cloud.js";
import type { CloudSchemas } from "./types.js";

export interface SvcCloudOptions extends ClientOptions {
  /** The address of the cloud. */
  cloud: string;
  /** An organization key: license, machines and usage. */
  key?: string;
  /** An access token of a person: profiles, too. */
  token?: string;
}

type Query<Operation extends keyof operations> = NonNullable<operations[Operation]["parameters"]["query"]>;
type Profile = CloudSchemas["Profile"];
type List<T> = AsyncGenerator<T, void, undefined>;

/** Manages profiles, and reads the use of the organization. */
export class SvcCloud {
  readonly profiles: Profiles;
  readonly #http: Http;

  constructor(options: SvcCloudOptions) {
    if (!options.key === !options.token) throw new TypeError("SvcCloud takes either key or token.");
    const headers: Record<string, string> = options.token
      ? { Authorization: `Bearer ${options.token}` }
      : { "X-API-Key": options.key ?? "" };
    this.#http = new Http(options.cloud, headers, options);
    this.profiles = new Profiles(this.#http);
  }

  /** Returns the slots in use, and the sessions that use them. It needs a key. */
  async license(options?: CallOptions): Promise<CloudSchemas["LicenseSessions"]> {
    return this.#http.json("GET", "/v1/license/sessions", options);
  }

  machines(filter: Omit<Query<"listMachines">, "page"> = {}, options?: CallOptions): List<CloudSchemas["Machine"]> {
    return this.#http.pages("/v1/machines", filter, options);
  }

  /** Returns the slots in use over time, browser hours and traffic. */
  async usage(period: Query<"getLicenseUsage"> = {}, options?: CallOptions): Promise<CloudSchemas["LicenseUsage"]> {
    return this.#http.json("GET", "/v1/license/usage", { ...options, query: period });
  }

  /** Lists the sessions of all machines, also ended ones. It needs a token. */
  sessions(
    filter: Omit<Query<"listSessions">, "page" | "cursor"> = {},
    options?: CallOptions,
  ): List<CloudSchemas["Session"]> {
    return this.#http.pages("/v1/sessions", filter, options);
  }
}

/** The profiles of the organization. They need a token. */
export class Profiles {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  list(filter: Omit<Query<"listProfiles">, "page"> = {}, options?: CallOptions): List<Profile> {
    return this.#http.pages("/v1/profiles", filter, options);
  }

  async get(id: string, options?: CallOptions): Promise<Profile> {
    return this.#http.json("GET", path(id), options);
  }

  /** Returns the profile with this name. Names need not be unique: the newest counts. */
  async find(name: string, options?: CallOptions): Promise<Profile> {
    for await (const profile of this.list({ search: name, sortBy: "createdAt", sortOrder: "desc" }, options)) {
      if (profile.name === name) return profile;
    }
    const message = `There is no profile with the name ${name}.`;
    throw new NotFound({ code: "RESOURCE_NOT_FOUND", message, status: 0, details: [], requestId: "" });
  }

  async create(profile: CloudSchemas["CreateProfileRequest"], options?: CallOptions): Promise<Profile> {
    return this.#http.json("POST", "/v1/profiles", { ...options, ...once(), body: profile });
  }

  async update(id: string, change: CloudSchemas["UpdateProfileRequest"], options?: CallOptions): Promise<Profile> {
    return this.#http.json("PATCH", path(id), { ...options, body: change });
  }

  async duplicate(
    id: string,
    change: CloudSchemas["DuplicateProfileRequest"] = {},
    options?: CallOptions,
  ): Promise<Profile> {
    return this.#http.json("POST", `${path(id)}/duplicate`, { ...options, ...once(), body: change });
  }

  async delete(id: string, options?: CallOptions): Promise<void> {
    await this.#http.json("DELETE", path(id), options);
  }
}

function path(id: string): string {
  return `/v1/profiles/${encodeURIComponent(id)}`;
}
