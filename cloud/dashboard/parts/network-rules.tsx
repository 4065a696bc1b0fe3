import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { CheckField, NumberField, SelectField, TextArea, type Form } from "../../../shared/web/forms/form";
import { texts } from "../texts/network";
import { ChoicesField } from "./profile-fields";
import type { NetworkValues } from "./network-values";

type WithNetwork = { network: NetworkValues };
type Props<V extends WithNetwork> = { form: Form<V> };

/** The fields of network rules, in a form whose values have them as `network`. */
export function NetworkRulesFields<V extends WithNetwork>({ form }: Props<V>) {
  form.register("network");
  return (
    <>
      <NavigationFields form={form} />
      <ConnectionFields form={form} />
      <ContentFields form={form} />
      {form.errorOf("network") && (
        <span class="error" role="alert">
          {form.errorOf("network")}
        </span>
      )}
    </>
  );
}

function Part({ title, children }: { title: string; children: ComponentChildren }) {
  const id = useId();
  return (
    <section class="stack" aria-labelledby={id}>
      <h3 id={id}>{title}</h3>
      {children}
    </section>
  );
}

function NavigationFields<V extends WithNetwork>({ form }: Props<V>) {
  const t = texts.navigate;
  const { only } = form.values.network.navigate;
  return (
    <Part title={t.title}>
      <SelectField
        form={form}
        name="network.navigate.only"
        label={t.only}
        hint={t.onlyHint}
        options={t.choices}
        empty={t.everything}
      />
      {only && (
        <>
          <p class="faint small">
            {texts.pattern} {t.patternMore}
          </p>
          <div class="columns">
            {only === "list" && <TextArea form={form} name="network.navigate.allow" label={t.allow} />}
            <TextArea form={form} name="network.navigate.ask" label={t.ask} hint={t.askHint} />
            <TextArea form={form} name="network.navigate.deny" label={t.deny} hint={t.denyHint} />
          </div>
        </>
      )}
    </Part>
  );
}

function ConnectionFields<V extends WithNetwork>({ form }: Props<V>) {
  const t = texts.connect;
  return (
    <Part title={t.title}>
      <SelectField
        form={form}
        name="network.connect.only"
        label={t.only}
        hint={t.onlyHint}
        options={t.choices}
        empty={t.everything}
      />
      <p class="faint small">{texts.pattern}</p>
      <div class="columns">
        {form.values.network.connect.only && <TextArea form={form} name="network.connect.allow" label={t.allow} />}
        <TextArea form={form} name="network.connect.deny" label={t.deny} hint={t.denyHint} />
      </div>
    </Part>
  );
}

function ContentFields<V extends WithNetwork>({ form }: Props<V>) {
  const t = texts.contents;
  return (
    <Part title={t.title}>
      <ChoicesField
        form={form}
        name="network.block"
        label={t.block}
        chosen={form.values.network.block}
        options={t.kinds}
        hint={t.blockHint}
      />
      <CheckField form={form} name="network.methods.readOnly" label={t.readOnly} />
      <div class="columns">
        <SelectField form={form} name="network.uploads" label={t.uploads} options={t.transfers} empty={t.allowed} />
        <SelectField form={form} name="network.downloads" label={t.downloads} options={t.transfers} empty={t.allowed} />
        <NumberField
          form={form}
          name="network.maxMegabytes"
          label={t.maxMegabytes}
          hint={t.maxMegabytesHint}
          min={0}
          max={1_000_000}
        />
        <NumberField form={form} name="network.maxRequestsPerMinute" label={t.maxRequestsPerMinute} />
      </div>
    </Part>
  );
}
