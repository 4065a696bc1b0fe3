import { lazy, Suspense } from "preact/compat";
import { Route, Switch, useLocation } from "wouter-preact";
import { Loading, PageBoundary } from "../../shared/web/ui";
import { NotFound } from "./pages/not-found";
import { SignedIn } from "./shell";

const Account = lazy(() => import("./pages/account"));
const AcceptInvitation = lazy(() => import("./pages/accept-invitation"));
const AuditLog = lazy(() => import("./pages/audit-log"));
const Billing = lazy(() => import("./pages/billing"));
const Connect = lazy(() => import("./pages/connect"));
const ForgotPassword = lazy(() => import("./pages/forgot-password"));
const Machines = lazy(() => import("./pages/machines"));
const NewOrganization = lazy(() => import("./pages/new-organization"));
const Overview = lazy(() => import("./pages/overview"));
const Profile = lazy(() => import("./pages/profile"));
const Profiles = lazy(() => import("./pages/profiles"));
const ResetPassword = lazy(() => import("./pages/reset-password"));
const Sessions = lazy(() => import("./pages/sessions"));
const Settings = lazy(() => import("./pages/settings"));
const SignIn = lazy(() => import("./pages/sign-in"));
const SignInLink = lazy(() => import("./pages/sign-in-link"));
const SignUp = lazy(() => import("./pages/sign-up"));
const VerifyEmail = lazy(() => import("./pages/verify-email"));

/** The pages by path. Each page is loaded when it is opened first. */
export function App() {
  const [path] = useLocation();
  return (
    <Suspense fallback={<Loading />}>
      <Switch>
        <Route path="/sign-in" component={SignIn} />
        <Route path="/sign-in/link" component={SignInLink} />
        <Route path="/sign-up" component={SignUp} />
        <Route path="/forgot-password" component={ForgotPassword} />
        <Route path="/account/verify-email" component={VerifyEmail} />
        <Route path="/account/reset-password" component={ResetPassword} />
        <Route path="/account/accept-invitation" component={AcceptInvitation} />
        <Route>
          <SignedIn>
            <PageBoundary key={path.split("/")[1]}>
              <Suspense fallback={<Loading />}>
                <Switch>
                  <Route path="/" component={Overview} />
                  <Route path="/overview" component={Overview} />
                  <Route path="/sessions" component={Sessions} />
                  <Route path="/sessions/:id" component={Sessions} />
                  <Route path="/profiles" component={Profiles} />
                  <Route path="/profiles/new" component={Profile} />
                  <Route path="/profiles/:id" component={Profile} />
                  <Route path="/machines" component={Machines} />
                  <Route path="/connect" component={Connect} />
                  <Route path="/settings" component={Settings} />
                  <Route path="/settings/:section" component={Settings} />
                  <Route path="/billing" component={Billing} />
                  <Route path="/audit-log" component={AuditLog} />
                  <Route path="/account" component={Account} />
                  <Route path="/organizations/new" component={NewOrganization} />
                  <Route component={NotFound} />
                </Switch>
              </Suspense>
            </PageBoundary>
          </SignedIn>
        </Route>
      </Switch>
    </Suspense>
  );
}
