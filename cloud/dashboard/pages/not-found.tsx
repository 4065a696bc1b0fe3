import { ButtonLink, Empty } from "../../../shared/web/ui";
import { texts } from "../texts/shell";

/** What an unknown address shows. */
export function NotFound() {
  return (
    <>
      <div class="page-header">
        <h1>{texts.notFound}</h1>
      </div>
      <NothingHere />
    </>
  );
}

/** What an unknown address below a page shows. */
export function NothingHere() {
  return (
    <Empty icon="help" title={texts.notFoundTitle} action={<ButtonLink to="/">{texts.toOverview}</ButtonLink>}>
      {texts.notFoundHint}
    </Empty>
  );
}
