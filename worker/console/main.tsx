import { QueryClientProvider } from "@tanstack/preact-query";
import { render } from "preact";
import { Router } from "wouter-preact";
import { newQueryClient } from "../../shared/web/api/query";
import { Toasts, applyTheme } from "../../shared/web/ui";
import "../../shared/web/styles/tokens.css";
import "../../shared/web/styles/base.css";
import "../../shared/web/styles/components.css";
import "./console.css";
import { App } from "./app";
import { toHref, useHash, useHashSearch } from "./hash";
import { Player, recordedSession } from "./pages/player";
import { TraceViewer } from "./pages/trace-viewer";

applyTheme();
const recorded = recordedSession(location.pathname);
render(
  <QueryClientProvider client={newQueryClient()}>
    {recorded ? (
      recorded.page === "viewer" ? (
        <TraceViewer sessionId={recorded.sessionId} />
      ) : (
        <Player sessionId={recorded.sessionId} />
      )
    ) : (
      <Router hook={useHash} searchHook={useHashSearch} hrefs={toHref}>
        <App />
      </Router>
    )}
    <Toasts />
  </QueryClientProvider>,
  document.getElementById("app")!,
);
