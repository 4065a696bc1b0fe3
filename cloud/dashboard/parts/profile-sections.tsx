import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import {
  CheckField,
  NumberField,
  PairsField,
  SelectField,
  TagsField,
  TextArea,
  TextField,
} from "../../../shared/web/forms/form";
import { ChoicesField, Group } from "../../../shared/web/forms/choices";
import { Button } from "../../../shared/web/ui";
import { createProfile } from "../../../gen/web/cloud-rules";
import { texts as networkTexts } from "../texts/network";
import { texts } from "../texts/profiles";
import { NetworkRulesFields } from "../../../shared/web/forms/network-rules";
import { NetworkTester } from "./network-tester";
import { networkRules } from "../../../shared/web/forms/network-values";
import { FlagField, PasswordField, SizeField, SuggestField, type ProfileForm } from "./profile-fields";
import { ClientCertificatesField } from "./profile-certificates";
import type { Profile } from "./profile-data";
import { devices, locales, osNames, timeZones } from "./profile-options";

const { fields, hints } = texts;
const { sections } = texts.form;

/** The sections of the form: their ids in the page and their titles. */
export const sectionList = Object.entries(sections).map(([id, title]) => ({
  id: `section-${id}`,
  title,
}));

function Section({ id, children }: { id: keyof typeof sections; children: ComponentChildren }) {
  return (
    <section class="panel stack" id={`section-${id}`} aria-labelledby={`heading-${id}`} tabIndex={-1}>
      <h2 id={`heading-${id}`}>{sections[id]}</h2>
      {children}
    </section>
  );
}

/** Name, browser version and what the browser says about itself. */
export function IdentitySection({ form, versions }: { form: ProfileForm; versions: readonly number[] }) {
  return (
    <Section id="identity">
      <div class="columns">
        <TextField form={form} name="name" label={fields.name} autocomplete="off" />
        <NumberField
          form={form}
          name="browserVersion"
          label={fields.browserVersion}
          hint={hints.browserVersion}
          list="browser-versions"
        />
        <datalist id="browser-versions">
          {versions.map((v) => (
            <option key={v} value={String(v)} />
          ))}
        </datalist>
      </div>
      <div class="columns">
        <SelectField
          form={form}
          name="os"
          label={fields.os}
          hint={hints.os}
          options={osNames}
          empty={texts.form.defaultChoice}
        />
        {form.values.os === "windows" && (
          <SelectField
            form={form}
            name="windowsVersion"
            label={fields.windowsVersion}
            options={createProfile.properties.windowsVersion.enum.filter((v) => v !== null)}
            empty={texts.form.defaultChoice}
          />
        )}
        <TextField form={form} name="osVersion" label={fields.osVersion} hint={hints.osVersion} autocomplete="off" />
        <SelectField
          form={form}
          name="osArch"
          label={fields.osArch}
          options={texts.archs}
          empty={texts.form.defaultChoice}
        />
      </div>
      <TextField
        form={form}
        name="userAgent"
        label={fields.userAgent}
        hint={hints.userAgent}
        autocomplete="off"
        spellcheck={false}
      />
    </Section>
  );
}

/** The hardware and the screen. */
export function DeviceSection({ form }: { form: ProfileForm }) {
  return (
    <Section id="device">
      <DevicePreset form={form} />
      <div class="columns">
        <SizeField form={form} name="viewport" />
        <SizeField form={form} name="screen" />
      </div>
      <div class="columns">
        <NumberField
          form={form}
          name="deviceScaleFactor"
          label={fields.deviceScaleFactor}
          hint={hints.deviceScaleFactor}
        />
        <FlagField form={form} name="isMobile" />
        <FlagField form={form} name="hasTouch" />
        <SelectField
          form={form}
          name="colorScheme"
          label={fields.colorScheme}
          hint={hints.colorScheme}
          options={texts.schemes}
          empty={texts.form.defaultChoice}
        />
      </div>
      <div class="columns">
        <TextField form={form} name="model" label={fields.model} hint={hints.model} autocomplete="off" />
        <TextField form={form} name="gpuName" label={fields.gpuName} hint={hints.gpuName} autocomplete="off" />
        <TextField form={form} name="renderer" label={fields.renderer} hint={hints.renderer} autocomplete="off" />
      </div>
    </Section>
  );
}

function DevicePreset({ form }: { form: ProfileForm }) {
  const apply = (name: string) => {
    const device = devices.find((d) => d.name === name);
    if (!device) return;
    const flag = device.mobile ? "true" : "false";
    form.set("viewport", {
      width: device.viewport[0],
      height: device.viewport[1],
    });
    form.set("screen", { width: device.screen[0], height: device.screen[1] });
    form.set("deviceScaleFactor", device.deviceScaleFactor);
    form.set("isMobile", flag);
    form.set("hasTouch", flag);
  };
  return (
    <label class="field">
      <span class="strong">{texts.size.device}</span>
      <select
        class="select"
        value=""
        onChange={(event) => {
          apply(event.currentTarget.value);
          event.currentTarget.value = "";
        }}
      >
        <option value="">{texts.size.chooseDevice}</option>
        {devices.map((d) => (
          <option key={d.name} value={d.name}>
            {d.name}
          </option>
        ))}
      </select>
      <span class="hint">{hints.device}</span>
    </label>
  );
}

/** Language, time zone and position. */
export function PlaceSection({ form }: { form: ProfileForm }) {
  const zones = useMemo(timeZones, []);
  const names = useMemo(() => new Intl.DisplayNames("en", { type: "language" }), []);
  const { latitude, longitude, accuracy } = form.values.geolocation;
  const set = [latitude, longitude, accuracy].some((v) => v !== undefined);
  form.register("geolocation");
  return (
    <Section id="place">
      <div class="columns">
        <SuggestField
          form={form}
          name="locale"
          hint={hints.locale}
          suggestions={locales}
          describe={(tag) => names.of(tag)}
        />
        <SuggestField form={form} name="timezoneId" hint={hints.timezoneId} suggestions={zones} />
      </div>
      <Group label={fields.geolocation} hint={hints.geolocation} error={form.errorOf("geolocation")}>
        <div class="columns">
          <NumberField form={form} name="geolocation.latitude" label={texts.geo.latitude} />
          <NumberField form={form} name="geolocation.longitude" label={texts.geo.longitude} />
          <NumberField form={form} name="geolocation.accuracy" label={texts.geo.accuracy} hint={hints.accuracy} />
        </div>
        {set && (
          <div>
            <Button
              size="small"
              onClick={() =>
                form.set("geolocation", {
                  latitude: undefined,
                  longitude: undefined,
                  accuracy: undefined,
                })
              }
            >
              {texts.geo.clear}
            </Button>
          </div>
        )}
      </Group>
    </Section>
  );
}

/** The proxy and additional headers. */
export function NetworkSection({ form, stored }: { form: ProfileForm; stored: Profile["proxy"] }) {
  const { proxy } = form.values;
  const set = Boolean(proxy.server || proxy.bypass || proxy.username || proxy.password);
  const lost = stored?.hasPassword === true && proxy.server.trim() !== stored.server;
  form.register("proxy");
  return (
    <Section id="network">
      <Group label={fields.proxy} error={form.errorOf("proxy")}>
        <div class="columns">
          <TextField
            form={form}
            name="proxy.server"
            label={texts.proxy.server}
            hint={hints.server}
            autocomplete="off"
            spellcheck={false}
          />
          <TextField
            form={form}
            name="proxy.bypass"
            label={texts.proxy.bypass}
            hint={hints.bypass}
            autocomplete="off"
            spellcheck={false}
          />
        </div>
        <div class="columns">
          <TextField
            form={form}
            name="proxy.username"
            label={texts.proxy.username}
            autocomplete="off"
            spellcheck={false}
          />
          <PasswordField form={form} stored={stored?.hasPassword ?? false} lost={lost} />
        </div>
        {set && (
          <div>
            <Button
              size="small"
              icon="close"
              onClick={() =>
                form.set("proxy", {
                  server: "",
                  bypass: "",
                  username: "",
                  password: "",
                  removePassword: false,
                })
              }
            >
              {texts.proxy.remove}
            </Button>
          </div>
        )}
      </Group>
      <PairsField form={form} name="extraHTTPHeaders" label={fields.extraHTTPHeaders} hint={hints.headers} />
      <TextArea form={form} name="caCertificates" label={fields.caCertificates} hint={hints.caCertificates} rows={3} />
      <ClientCertificatesField form={form} />
    </Section>
  );
}

/** What the browser may open and connect to. */
export function RulesSection({ form }: { form: ProfileForm }) {
  return (
    <Section id="rules">
      <p class="faint">{networkTexts.profileIntro}</p>
      <NetworkRulesFields form={form} name="network" values={form.values.network} />
      <NetworkTester level="profile" rules={networkRules(form.values.network)} />
    </Section>
  );
}

/** How the browser starts. */
export function BrowserSection({ form }: { form: ProfileForm }) {
  return (
    <Section id="browser">
      <TextArea form={form} name="startUrls" label={fields.startUrls} hint={hints.startUrls} rows={3} />
      <TextArea form={form} name="args" label={fields.args} hint={hints.args} rows={3} />
      <ChoicesField
        form={form}
        name="permissions"
        label={fields.permissions}
        chosen={form.values.permissions}
        options={createProfile.properties.permissions.items.enum}
        hint={hints.permissions}
      />
      <ChoicesField
        form={form}
        name="record"
        label={fields.record}
        chosen={form.values.record}
        options={createProfile.properties.record.items.enum}
        hint={hints.record}
      />
      <div class="columns">
        <NumberField
          form={form}
          name="idleTimeoutSeconds"
          label={fields.idleTimeoutSeconds}
          hint={hints.idleTimeoutSeconds}
        />
        <NumberField
          form={form}
          name="maxDurationSeconds"
          label={fields.maxDurationSeconds}
          hint={hints.maxDurationSeconds}
        />
      </div>
      <div class="columns">
        <FlagField form={form} name="ignoreHTTPSErrors" hint={hints.ignoreHTTPSErrors} />
        <CheckField form={form} name="persist" label={fields.persist} hint={hints.persist} />
      </div>
    </Section>
  );
}

/** What helps people to find and understand the profile. */
export function NotesSection({ form, tags }: { form: ProfileForm; tags: readonly string[] }) {
  return (
    <Section id="notes">
      <TagsField form={form} name="tags" label={fields.tags} hint={hints.tags} suggestions={tags} />
      <TextArea form={form} name="notes" label={fields.notes} rows={4} />
      <PairsField form={form} name="metadata" label={fields.metadata} hint={hints.metadata} />
    </Section>
  );
}
