import { Component, type ComponentChildren } from "preact";
import { Button } from "./button";
import { Notice } from "./feedback";

/**
 * Shows a message instead of a page that fails, for example if its script does not load because the service was
 * upgraded. Give it the path as key, so that another page can be opened.
 */
export class PageBoundary extends Component<{ children: ComponentChildren }, { failed: boolean }> {
  override state = { failed: false };

  static override getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }

  override componentDidCatch(error: unknown): void {
    console.error(error);
  }

  override render() {
    if (!this.state.failed) return this.props.children;
    return (
      <Notice
        tone="bad"
        title="This page could not be shown."
        action={
          <Button icon="refresh" onClick={() => location.reload()}>
            Reload
          </Button>
        }
      >
        The service may have been upgraded, or the connection was lost. Reload the page.
      </Notice>
    );
  }
}
