import { ButtonLink, Notice } from "../../../shared/web/ui";
import { NewOrganizationForm } from "../parts/organization-form";
import { useSession } from "../session";
import { texts } from "../texts/account";
import "./new-organization.css";

/** Creates another organization and opens its overview. */
export default function NewOrganization() {
  const { user, activate } = useSession();
  return (
    <div class="new-organization">
      <div class="page-header">
        <div class="stack tight">
          <h1>{texts.newOrganization}</h1>
          <p>{texts.newOrganizationHint}</p>
        </div>
      </div>
      <section class="panel stack">
        {!user.emailVerified && <Notice tone="wait">{texts.secondOrganization}</Notice>}
        <NewOrganizationForm onCreated={activate} secondary={<ButtonLink to="/overview">{texts.cancel}</ButtonLink>} />
      </section>
    </div>
  );
}
