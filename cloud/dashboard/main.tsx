import { QueryClientProvider } from "@tanstack/preact-query";
import { render } from "preact";
import { Router } from "wouter-preact";
import { basePath } from "../../shared/web/api/client";
import { newQueryClient } from "../../shared/web/api/query";
import { Toasts, applyTheme } from "../../shared/web/ui";
import "../../shared/web/styles/tokens.css";
import "../../shared/web/styles/base.css";
import "../../shared/web/styles/components.css";
import "./dashboard.css";
import { App } from "./app";

applyTheme();
render(
  <QueryClientProvider client={newQueryClient()}>
    <Router base={basePath().replace(/\/$/, "")}>
      <App />
    </Router>
    <Toasts />
  </QueryClientProvider>,
  document.getElementById("app")!,
);
