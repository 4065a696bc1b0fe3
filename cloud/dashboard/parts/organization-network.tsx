import { useQueryClient } from "@tanstack/preact-query";
import { send } from "../../../shared/web/api/client";
import { FormFrame, useForm } from "../../../shared/web/forms/form";
import { Button, toast } from "../../../shared/web/ui";
import { updateOrganization as rule } from "../../../gen/web/cloud-rules";
import { api, type Schema } from "../api";
import { useManages, useSession } from "../session";
import { texts } from "../texts/network";
import { NetworkRulesFields } from "../../../shared/web/forms/network-rules";
import { NetworkTester } from "./network-tester";
import { networkRules, networkValues } from "../../../shared/web/forms/network-values";

/** The section with the network rules of the organization. */
export function OrganizationNetwork() {
  const { organization } = useSession();
  const manages = useManages();
  const queries = useQueryClient();
  const form = useForm({
    rule,
    initial: { network: networkValues(organization.network) },
    body: ({ network }) => ({ network: networkRules(network) ?? null }),
    onSubmit: async (body) => {
      await send(
        api.PATCH("/v1/organizations/{organizationId}", {
          params: { path: { organizationId: organization.id } },
          body: body as Schema<"UpdateOrganizationRequest">,
        }),
      );
      await queries.invalidateQueries({ queryKey: ["organizations"] });
      toast(texts.saved);
    },
  });
  return (
    <div class="stack">
      <section class="panel stack" aria-labelledby="network-title">
        <h2 id="network-title">{texts.title}</h2>
        <p>{texts.intro}</p>
        {!manages && <p class="faint">{texts.readOnly}</p>}
        <FormFrame form={form} label={texts.title}>
          <fieldset class="stack" disabled={!manages}>
            <NetworkRulesFields form={form} name="network" values={form.values.network} />
            {manages && (
              <div>
                <Button type="submit" kind="primary" busy={form.busy} disabled={!form.dirty}>
                  {texts.save}
                </Button>
              </div>
            )}
          </fieldset>
        </FormFrame>
      </section>
      <section class="panel" aria-label={texts.tester.title}>
        <NetworkTester level="organization" rules={networkRules(form.values.network)} />
      </section>
    </div>
  );
}
