import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { ChoicesField } from "./choices";
import { CheckField, NumberField, SelectField, TextArea, type Form } from "./form";
import { texts } from "./network-texts";
import type { NetworkValues } from "./network-values";

type Props<V extends Record<string, unknown>> = {
  form: Form<V>;
  /** The field of the form that has the rules. */
  name: string;
  values: NetworkValues;
};

/** The fields of network rules. */
export function NetworkRulesFields<V extends Record<string, unknown>>(props: Props<V>) {
  const { form, name } = props;
  form.register(name);
  return (
    <>
      <NavigationFields {...props} />
      <ConnectionFields {...props} />
      <ContentFields {...props} />
      {form.errorOf(name) && (
        <span class="error" role="alert">
          {form.errorOf(name)}
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

function NavigationFields<V extends Record<string, unknown>>({ form, name, values }: Props<V>) {
  const t = texts.navigate;
  const { only } = values.navigate;
  return (
    <Part title={t.title}>
      <SelectField
        form={form}
        name={`${name}.navigate.only`}
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
            {only === "list" && <TextArea form={form} name={`${name}.navigate.allow`} label={t.allow} />}
            <TextArea form={form} name={`${name}.navigate.ask`} label={t.ask} hint={t.askHint} />
            <TextArea form={form} name={`${name}.navigate.deny`} label={t.deny} hint={t.denyHint} />
          </div>
        </>
      )}
    </Part>
  );
}

function ConnectionFields<V extends Record<string, unknown>>({ form, name, values }: Props<V>) {
  const t = texts.connect;
  return (
    <Part title={t.title}>
      <SelectField
        form={form}
        name={`${name}.connect.only`}
        label={t.only}
        hint={t.onlyHint}
        options={t.choices}
        empty={t.everything}
      />
      <p class="faint small">{texts.pattern}</p>
      <div class="columns">
        {values.connect.only && <TextArea form={form} name={`${name}.connect.allow`} label={t.allow} />}
        <TextArea form={form} name={`${name}.connect.deny`} label={t.deny} hint={t.denyHint} />
      </div>
    </Part>
  );
}

function ContentFields<V extends Record<string, unknown>>({ form, name, values }: Props<V>) {
  const t = texts.contents;
  return (
    <Part title={t.title}>
      <ChoicesField
        form={form}
        name={`${name}.block`}
        label={t.block}
        chosen={values.block}
        options={t.kinds}
        hint={t.blockHint}
      />
      <CheckField form={form} name={`${name}.methods.readOnly`} label={t.readOnly} />
      <div class="columns">
        <SelectField form={form} name={`${name}.uploads`} label={t.uploads} options={t.transfers} empty={t.allowed} />
        <SelectField
          form={form}
          name={`${name}.downloads`}
          label={t.downloads}
          options={t.transfers}
          empty={t.allowed}
        />
        <NumberField
          form={form}
          name={`${name}.maxMegabytes`}
          label={t.maxMegabytes}
          hint={t.maxMegabytesHint}
          min={0}
          max={1_000_000}
        />
        <NumberField form={form} name={`${name}.maxRequestsPerMinute`} label={t.maxRequestsPerMinute} />
      </div>
    </Part>
  );
}
