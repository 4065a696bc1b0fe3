import type { ComponentChildren } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import {
  CheckField,
  NumberField,
  PairsField,
  SelectField,
  TagsField,
  TextArea,
  TextField,
  type Form,
} from "../../../shared/web/forms/form";
import type { Rule } from "../../../shared/web/forms/rules";
import { NetworkRulesFields } from "../../../shared/web/forms/network-rules";
import { Icon } from "../../../shared/web/ui";
import { texts } from "../texts/launch";
import type { LaunchValues } from "./launch-request";

type Props = { form: Form<LaunchValues> };

/** The fields below, so that an error in one opens the options. */
const fields = [
  "browser.viewport",
  "browser.viewport.width",
  "browser.viewport.height",
  "browser.screen",
  "browser.screen.width",
  "browser.screen.height",
  "browser.deviceScaleFactor",
  "browser.colorScheme",
  "browser.locale",
  "browser.timezoneId",
  "browser.geolocation.latitude",
  "browser.geolocation.longitude",
  "browser.geolocation.accuracy",
  "proxyOverride.server",
  "proxyOverride.username",
  "proxyOverride.password",
  "proxyOverride.bypass",
  "browser.network",
  "spec.extraHTTPHeaders",
  "spec.ignoreHTTPSErrors",
  "browser.timeoutMs",
  "browser.maxDurationSeconds",
  "browser.idleTimeoutSeconds",
  "browser.connectTimeoutSeconds",
  "browser.keepAlive",
  "browser.keepFiles",
  "browser.userAgent",
  "browser.args",
  "browser.permissions",
  "browser.name",
  "browser.metadata",
];

/** The options that few launches need. They open when one of them has an error. */
export function LaunchOptions({ form }: Props) {
  const [open, setOpen] = useState(false);
  const wrong = fields.some((field) => form.errorOf(field) !== undefined);
  useEffect(() => {
    if (wrong) setOpen(true);
  }, [wrong]);
  return (
    <details class="panel options" open={open || wrong} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Icon name="right" />
        <h2>{texts.more}</h2>
      </summary>
      <div class="stack">
        <ScreenOptions form={form} />
        <PlaceOptions form={form} />
        <NetworkOptions form={form} />
        <RuleOptions form={form} />
        <LimitOptions form={form} />
        <AdvancedOptions form={form} />
      </div>
    </details>
  );
}

function Group({ title, children }: { title: string; children: ComponentChildren }) {
  const id = useId();
  return (
    <section class="stack group" aria-labelledby={id}>
      <h3 id={id}>{title}</h3>
      {children}
    </section>
  );
}

function ScreenOptions({ form }: Props) {
  return (
    <Group title={texts.screenGroup}>
      <div class="columns fields">
        <NumberField form={form} name="browser.viewport.width" label={texts.width} />
        <NumberField form={form} name="browser.viewport.height" label={texts.height} />
        <NumberField form={form} name="browser.screen.width" label={texts.screenWidth} />
        <NumberField form={form} name="browser.screen.height" label={texts.screenHeight} />
        <NumberField form={form} name="browser.deviceScaleFactor" label={texts.scale} />
        <SelectField
          form={form}
          name="browser.colorScheme"
          label={texts.colorScheme}
          empty={texts.anyValue}
          options={texts.colorSchemes}
        />
      </div>
    </Group>
  );
}

const zones = Intl.supportedValuesOf("timeZone");

function PlaceOptions({ form }: Props) {
  const list = useId();
  return (
    <Group title={texts.localeGroup}>
      <div class="columns fields">
        <TextField form={form} name="browser.locale" label={texts.locale} hint={texts.localeHint} autocomplete="off" />
        <TextField
          form={form}
          name="browser.timezoneId"
          label={texts.timezone}
          hint={texts.timezoneHint}
          list={list}
          autocomplete="off"
        />
        <datalist id={list}>
          {zones.map((zone) => (
            <option key={zone} value={zone} />
          ))}
        </datalist>
        <NumberField form={form} name="browser.geolocation.latitude" label={texts.latitude} />
        <NumberField form={form} name="browser.geolocation.longitude" label={texts.longitude} />
        <NumberField form={form} name="browser.geolocation.accuracy" label={texts.accuracy} />
      </div>
    </Group>
  );
}

function NetworkOptions({ form }: Props) {
  return (
    <Group title={texts.networkGroup}>
      <SelectField form={form} name="proxy" label={texts.proxy} options={texts.proxies} />
      {form.values.proxy === "custom" && (
        <div class="columns fields">
          <TextField
            form={form}
            name="proxyOverride.server"
            label={texts.proxyServer}
            hint={texts.proxyServerHint}
            autocomplete="off"
            spellcheck={false}
          />
          <TextField form={form} name="proxyOverride.username" label={texts.proxyUser} autocomplete="off" />
          <TextField
            form={form}
            name="proxyOverride.password"
            label={texts.proxyPassword}
            type="password"
            autocomplete="new-password"
          />
          <TextField
            form={form}
            name="proxyOverride.bypass"
            label={texts.proxyBypass}
            hint={texts.proxyBypassHint}
            autocomplete="off"
          />
        </div>
      )}
      {form.values.source === "spec" && (
        <>
          <PairsField form={form} name="spec.extraHTTPHeaders" label={texts.headers} />
          <CheckField form={form} name="spec.ignoreHTTPSErrors" label={texts.ignoreErrors} />
        </>
      )}
    </Group>
  );
}

function RuleOptions({ form }: Props) {
  return (
    <Group title={texts.rulesGroup}>
      <p class="faint">{texts.rulesIntro}</p>
      <NetworkRulesFields form={form} name="browser.network" values={form.values.browser.network} />
    </Group>
  );
}

function LimitOptions({ form }: Props) {
  return (
    <Group title={texts.limitsGroup}>
      <div class="columns fields">
        <NumberField form={form} name="browser.timeoutMs" label={texts.timeout} hint={texts.timeoutHint} />
        <NumberField
          form={form}
          name="browser.maxDurationSeconds"
          label={texts.maxDuration}
          hint={texts.maxDurationHint}
        />
        <NumberField form={form} name="browser.idleTimeoutSeconds" label={texts.idle} hint={texts.idleHint} />
        <NumberField form={form} name="browser.connectTimeoutSeconds" label={texts.connect} hint={texts.connectHint} />
      </div>
      <CheckField form={form} name="browser.keepAlive" label={texts.keepAlive} hint={texts.keepAliveHint} />
      <CheckField form={form} name="browser.keepFiles" label={texts.keepFiles} hint={texts.keepFilesHint} />
    </Group>
  );
}

function AdvancedOptions({ form }: Props) {
  const rule: Rule | undefined = form.ruleOf("browser.permissions");
  const permissions = (rule?.items?.enum ?? []).map(String);
  return (
    <Group title={texts.advancedGroup}>
      <TextField form={form} name="browser.userAgent" label={texts.userAgent} autocomplete="off" spellcheck={false} />
      <TextArea form={form} name="browser.args" label={texts.args} hint={texts.argsHint} rows={3} />
      <TagsField form={form} name="browser.permissions" label={texts.permissions} suggestions={permissions} />
      <TextField
        form={form}
        name="browser.name"
        label={texts.sessionName}
        hint={texts.sessionNameHint}
        autocomplete="off"
      />
      <PairsField form={form} name="browser.metadata" label={texts.metadata} />
    </Group>
  );
}
