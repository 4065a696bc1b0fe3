/** The texts of network rules, beside those of their form. */
export const texts = {
  title: "Network rules",
  intro:
    "What the browsers of all launches may open, load and connect to. Rules of profiles and launches can only narrow them. Changes apply to launches that start later.",
  profileIntro: "They narrow the rules of the organization.",
  readOnly: "Only owners and admins can change the rules.",
  save: "Save rules",
  saved: "Saved",

  tester: {
    title: "Test a request",
    intro: "Decides with the rules as they are in the form. Nothing is requested or saved.",
    url: "URL",
    type: "Kind",
    types: [
      ["document", "Page"],
      ["other", "Script, fetch or WebSocket"],
      ["image", "Image"],
      ["media", "Audio or video"],
      ["font", "Font"],
      ["ads", "Ad on the block list"],
    ] as [string, string][],
    method: "Method",
    methods: ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"],
    test: "Test",
    decisions: { allow: "Allowed", ask: "A person decides", deny: "Denied" },
    by: (rule: string, level: string) => `By ${rule}, a rule of the ${level}.`,
    unlisted: (list: string, level: string) => `By ${list} of the ${level}: no pattern of the list matches.`,
    noRule: "No rule concerns this request.",
  },
};
