import { newClient } from "../../shared/web/api/client";
import type { components, paths } from "../../gen/web/cloud";

/** A schema of the cloud's API document, for example `Schema<"Profile">`. */
export type Schema<Name extends keyof components["schemas"]> = components["schemas"][Name];

let organization: string | undefined;

/**
 * Sets the organization that this tab shows. Requests name it, so that the cloud refuses them when another tab has
 * activated another organization.
 */
export function expectOrganization(id: string | undefined): void {
  organization = id;
}

/** The client of the cloud's API. */
export const api = newClient<paths>((headers) => {
  if (organization) headers.set("X-Svc-Organization", organization);
});
