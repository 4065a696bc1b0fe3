import { SelectField, TextField, type Form } from "../../../shared/web/forms/form";
import { Notice } from "../../../shared/web/ui";
import { texts } from "../texts/launch";
import { criteria, matching, useAndroidModels, useBundles, useVersions, valuesOf, type Criterion } from "./bundles";
import type { LaunchValues } from "./launch-request";

type Options = [value: string, label: string][];

/** The label of a value of a criterion. */
function labelOf(name: Criterion, value: string): string {
  if (name === "browserVersion") return texts.version(value);
  if (name === "os") return texts.osNames[value] ?? value;
  if (name === "osArch") return texts.archNames[value] ?? value;
  return value;
}

/** The choices of each criterion: what the bundles have, all installed versions, and the Android models. */
function useOptions(values: LaunchValues) {
  const bundles = useBundles();
  const versions = useVersions();
  const { spec } = values;
  const installed = versions.data?.versions ?? [];
  const android = spec["os"] === "android";
  const models = useAndroidModels(android ? Number(spec["browserVersion"]) || installed[0] : undefined);
  const optionsOf = (name: Criterion): Options => {
    const found = valuesOf(bundles.data ?? [], spec, name);
    if (name === "browserVersion")
      return [...new Set([...installed.map(String), ...found])].map((v) => [v, labelOf(name, v)]);
    if (name === "os") return Object.entries(texts.osNames);
    if (name === "model" && models.data) {
      const known = models.data.models.map((m): [string, string] => [m.model, m.name]);
      const rest = found.filter((v) => !known.some(([model]) => model === v));
      return [...known, ...rest.map((v): [string, string] => [v, v])];
    }
    return found.map((v) => [v, labelOf(name, v)]);
  };
  return { bundles, optionsOf };
}

/** The criteria of an ephemeral profile. */
export function LaunchIdentity({ form }: { form: Form<LaunchValues> }) {
  const { spec } = form.values;
  const { bundles, optionsOf } = useOptions(form.values);
  const files = matching(bundles.data ?? [], spec, "filename");
  const chosen = matching(bundles.data ?? [], spec);
  const names = new Map(files.map((b) => [b.filename, b.name]));
  const selected = spec["filename"] as string | undefined;
  if (selected && !names.has(selected)) names.set(selected, selected);
  return (
    <>
      {bundles.error && <Notice tone="wait">{texts.bundlesFailed}</Notice>}
      <SelectField
        form={form}
        name="spec.filename"
        label={texts.filename}
        empty={texts.filenameAny}
        hint={texts.filenameHint}
        options={[...names].map(([file, name]) => [file, `${name} (${file})`])}
      />
      <div class="columns fields">
        {criteria.map((name) => {
          const options = optionsOf(name);
          return (
            options.length > 0 && (
              <SelectField
                key={name}
                form={form}
                name={`spec.${name}`}
                label={texts.criteria[name]}
                empty={texts.anyValue}
                options={options}
              />
            )
          );
        })}
      </div>
      {bundles.data && (
        <p class={chosen.length > 0 ? "faint" : "wait"} role="status">
          {chosen.length > 0 ? texts.bundles(chosen.length) : texts.noBundle}
        </p>
      )}
      <TextField form={form} name="spec.name" label={texts.name} hint={texts.nameHint} autocomplete="off" />
    </>
  );
}
