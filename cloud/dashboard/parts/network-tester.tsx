import { useState } from "preact/hooks";
import { send } from "../../../shared/web/api/client";
import { SelectField, TextField, useForm } from "../../../shared/web/forms/form";
import { Button, ErrorNotice, Notice, type Tone } from "../../../shared/web/ui";
import { checkNetworkRules as rule } from "../../../gen/web/cloud-rules";
import { api, type Schema } from "../api";
import { texts } from "../texts/network";
import type { NetworkRules } from "../../../shared/web/forms/network-values";

type Request = Schema<"CheckNetworkRulesRequest">;
type Decision = Schema<"NetworkDecision">;

const tones: Record<Decision["decision"], Tone> = { allow: "good", ask: "wait", deny: "bad" };

/** Returns the URL as the browser spells it. A host stands for its page. */
function urlOf(text: string): string {
  const url = text.trim();
  for (const candidate of [/^[a-z][a-z0-9+.-]*:(?!\d)/i.test(url) ? url : `https://${url}`, url])
    if (URL.canParse(candidate)) return new URL(candidate).href;
  return url;
}

/** Shows what rules that are not saved yet decide about a request. It can be in a form. */
export function NetworkTester({
  level,
  rules,
}: {
  level: "organization" | "profile";
  rules: NetworkRules | undefined;
}) {
  const t = texts.tester;
  const [answer, setAnswer] = useState<{ request: string; decision: Decision }>();
  const requestOf = (values: { url: string; type: string; method: string }) =>
    ({ ...values, url: urlOf(values.url), [level]: rules ?? null }) as Request;
  const form = useForm({
    rule: { ...rule, required: ["url", "type", "method"] },
    initial: { url: "", type: "document", method: "GET" },
    warns: false,
    body: (values) => ({ ...values, url: urlOf(values.url) }),
    onSubmit: async (_, values) => {
      const body = requestOf(values);
      setAnswer(undefined);
      const decision = await send(api.POST("/v1/network-rules/check", { body }));
      setAnswer({ request: JSON.stringify(body), decision });
    },
  });
  const current = answer && answer.request === JSON.stringify(requestOf(form.values)) ? answer.decision : undefined;
  return (
    <fieldset
      class="stack"
      onKeyDown={(event) => {
        if (event.key !== "Enter" || !(event.target instanceof HTMLInputElement)) return;
        event.preventDefault();
        void form.submit();
      }}
    >
      <legend class="label">{t.title}</legend>
      <p class="faint">{t.intro}</p>
      {form.failure ? <ErrorNotice error={form.failure} /> : null}
      <div class="columns">
        <TextField form={form} name="url" label={t.url} autocomplete="off" spellcheck={false} />
        <SelectField form={form} name="type" label={t.type} options={t.types} />
        <SelectField form={form} name="method" label={t.method} options={t.methods} />
      </div>
      <div>
        <Button busy={form.busy} onClick={() => void form.submit()}>
          {t.test}
        </Button>
      </div>
      {current && (
        <Notice tone={tones[current.decision]} title={t.decisions[current.decision]}>
          {reason(current)}
        </Notice>
      )}
    </fieldset>
  );
}

function reason({ rule, level }: Decision): string {
  const t = texts.tester;
  if (!rule || !level) return t.noRule;
  return rule.endsWith(".allow") ? t.unlisted(rule, level) : t.by(rule, level);
}
