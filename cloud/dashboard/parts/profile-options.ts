/** The operating systems of the API with their names. */
export const osNames: readonly [value: string, label: string][] = [
  ["windows", "Windows"],
  ["macos", "macOS"],
  ["linux", "Linux"],
  ["android", "Android"],
];

/** Common locales, as suggestions. Any BCP 47 tag is accepted. */
export const locales =
  "ar-EG ar-SA bg-BG bn-BD ca-ES cs-CZ da-DK de-AT de-CH de-DE el-GR en-AU en-CA en-GB en-IE en-IN en-NZ en-US en-ZA es-AR es-CL es-CO es-ES es-MX et-EE fa-IR fi-FI fil-PH fr-BE fr-CA fr-CH fr-FR he-IL hi-IN hr-HR hu-HU id-ID it-CH it-IT ja-JP ko-KR lt-LT lv-LV ms-MY nb-NO nl-BE nl-NL pl-PL pt-BR pt-PT ro-RO ru-RU sk-SK sl-SI sr-RS sv-SE sw-KE ta-IN th-TH tr-TR uk-UA ur-PK vi-VN zh-CN zh-HK zh-TW".split(
    " ",
  );

/** The time zones that this browser knows, and UTC. */
export const timeZones = (): string[] => [...new Set(["UTC", ...Intl.supportedValuesOf("timeZone")])];

/** Common sizes in CSS pixels. */
export const viewportSizes: readonly [width: number, height: number][] = [
  [1920, 1080],
  [1536, 864],
  [1440, 900],
  [1366, 768],
  [1280, 720],
  [1024, 768],
  [820, 1180],
  [412, 915],
  [390, 844],
  [360, 800],
];

/** The settings of a kind of device. */
export interface DevicePreset {
  name: string;
  viewport: [width: number, height: number];
  screen: [width: number, height: number];
  deviceScaleFactor: number;
  mobile: boolean;
}

/** Devices that fill in the fields of the screen at once. */
export const devices: readonly DevicePreset[] = [
  {
    name: "Desktop, Full HD",
    viewport: [1920, 963],
    screen: [1920, 1080],
    deviceScaleFactor: 1,
    mobile: false,
  },
  {
    name: "Desktop, QHD",
    viewport: [2560, 1323],
    screen: [2560, 1440],
    deviceScaleFactor: 1,
    mobile: false,
  },
  {
    name: "Laptop, 1366 x 768",
    viewport: [1366, 651],
    screen: [1366, 768],
    deviceScaleFactor: 1,
    mobile: false,
  },
  {
    name: "Laptop, high density",
    viewport: [1440, 789],
    screen: [1440, 900],
    deviceScaleFactor: 2,
    mobile: false,
  },
  {
    name: "Tablet",
    viewport: [820, 1180],
    screen: [820, 1180],
    deviceScaleFactor: 2,
    mobile: true,
  },
  {
    name: "Phone",
    viewport: [412, 915],
    screen: [412, 915],
    deviceScaleFactor: 2.625,
    mobile: true,
  },
  {
    name: "Small phone",
    viewport: [360, 800],
    screen: [360, 800],
    deviceScaleFactor: 3,
    mobile: true,
  },
];
