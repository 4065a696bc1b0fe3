import type { FunctionComponent } from "preact";
import { Link } from "wouter-preact";
import { useSession } from "../session";
import { ApiKeys } from "../parts/api-keys";
import { BrowserBuilds } from "../parts/browser-builds";
import { Members } from "../parts/members";
import { OrganizationNetwork } from "../parts/organization-network";
import { OrganizationSettings } from "../parts/organization-settings";
import { Secrets } from "../parts/secrets";
import { ServiceAccounts } from "../parts/service-accounts";
import { Webhooks } from "../parts/webhooks";
import { texts } from "../texts/settings";
import { NothingHere } from "./not-found";
import "./settings.css";

const sections: Record<keyof typeof texts.tabs, FunctionComponent> = {
  keys: ApiKeys,
  secrets: Secrets,
  members: Members,
  "service-accounts": ServiceAccounts,
  webhooks: Webhooks,
  organization: OrganizationSettings,
  network: OrganizationNetwork,
  builds: BrowserBuilds,
};

/** The settings of the organization, in sections. */
export default function Page({ params }: { params: { section?: string } }) {
  const { organization } = useSession();
  const name = (params.section ?? "keys") as keyof typeof sections;
  const Section = Object.hasOwn(sections, name) ? sections[name] : NothingHere;
  return (
    <>
      <div class="page-header">
        <div>
          <h1>{texts.title}</h1>
          <p>{organization.name}</p>
        </div>
      </div>
      <nav class="tabs settings-tabs" aria-label={texts.sections}>
        {Object.entries(texts.tabs).map(([section, label]) => (
          <Link key={section} href={`/settings/${section}`} aria-current={section === name ? "page" : undefined}>
            {label}
          </Link>
        ))}
      </nav>
      <Section />
    </>
  );
}
