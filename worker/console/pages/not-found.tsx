import { ButtonLink, Empty } from "../../../shared/web/ui";
import { texts } from "../texts/shell";

/** What an unknown address shows. */
export function NotFound() {
  return (
    <>
      <div class="page-header">
        <h1>{texts.notFound}</h1>
      </div>
      <Empty
        icon="help"
        title={texts.notFoundTitle}
        action={<ButtonLink to="/sessions">{texts.toSessions}</ButtonLink>}
      >
        {texts.notFoundHint}
      </Empty>
    </>
  );
}
