import { Segments, useTheme } from "../../../shared/web/ui";
import { AccessTokens } from "../parts/access-tokens";
import { PasswordSection, UserSection } from "../parts/account-forms";
import { DashboardSessions } from "../parts/dashboard-sessions";
import { texts } from "../texts/account";
import "./account.css";

/** The user's account: name, address, password, theme, access tokens and dashboard sessions. */
export default function Account() {
  return (
    <div class="stack">
      <div class="page-header account-header">
        <h1>{texts.title}</h1>
      </div>
      <div class="account-columns">
        <div class="stack">
          <UserSection />
          <ThemeSection />
        </div>
        <PasswordSection />
      </div>
      <AccessTokens />
      <DashboardSessions />
    </div>
  );
}

const themes = (["system", "light", "dark"] as const).map((value) => [value, texts.themes[value]] as const);

function ThemeSection() {
  const [theme, setTheme] = useTheme();
  return (
    <section class="panel stack tight">
      <h2>{texts.theme}</h2>
      <p class="faint">{texts.themeHint}</p>
      <div>
        <Segments label={texts.theme} name="theme" value={theme} options={themes} onChange={setTheme} />
      </div>
    </section>
  );
}
