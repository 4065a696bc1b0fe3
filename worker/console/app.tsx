import { Route, Switch } from "wouter-preact";
import Launch from "./pages/launch";
import Machine from "./pages/machine";
import { NotFound } from "./pages/not-found";
import Sessions from "./pages/sessions";
import { SignedIn } from "./shell";

/** The pages by path. They are one bundle: they are few and small. */
export function App() {
  return (
    <SignedIn>
      <Switch>
        <Route path="/" component={Sessions} />
        <Route path="/sessions" component={Sessions} />
        <Route path="/sessions/:id" component={Sessions} />
        <Route path="/launch" component={Launch} />
        <Route path="/machine" component={Machine} />
        <Route component={NotFound} />
      </Switch>
    </SignedIn>
  );
}
