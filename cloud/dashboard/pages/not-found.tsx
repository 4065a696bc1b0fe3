import { ButtonLink, Empty } from "../../../shared/web/ui";
import { texts } from "../texts/shell";

export function NotFound() {
  return (
    <Empty icon="help" title={texts.notFound} action={<ButtonLink to="/">{texts.toOverview}</ButtonLink>}>
      {texts.notFoundHint}
    </Empty>
  );
}
