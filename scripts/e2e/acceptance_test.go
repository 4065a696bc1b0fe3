package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// acceptance is one `make run` and its clients. All requests are plain HTTP, all
// responses are raw JSON.
type acceptance struct {
	demo      demo
	data      string    // SVC_DIR
	cloud     apiClient // of the cloud, without a credential
	owner     apiClient // the first user
	fleet     apiClient // the first organization's key, at the cloud
	worker    apiClient // the worker key, at the worker
	anonymous apiClient // of the worker, without a credential
	version   int       // of the browser
	profile   string    // of the first browser
	org       string
}

// TestAcceptance_FixedDefectsStayFixed tests the fixes of earlier defects, one by
// one, against one `make run`. Each point must leave the organization with one
// browser and one profile.
func TestAcceptance_FixedDefectsStayFixed(t *testing.T) {
	t.Parallel()
	a := newAcceptance(t)
	for _, point := range []struct {
		name string
		test func(*testing.T)
	}{
		{"page_token_opens_once", a.pageTokens},
		{"keys_belong_to_the_active_organization", a.activeOrganization},
		{"profile_limit_reports_the_running_count", a.profileLimit},
		{"validation_errors_have_details", a.errorDetails},
		{"refused_keys_of_callers_are_401", a.refusedCallerKey},
		{"received_is_the_sent_value", a.receivedValues},
		{"downloads_choose_a_platform", a.catalogDownloads},
		{"one_control_token_for_a_launch", a.controlToken},
		{"unions_and_empty_lists", a.unions},
		{"remaining_quota", a.remainingQuota},
		{"config_and_reclaim", a.workerRequests},
		{"live_reports_availability", a.fleetLive},
		{"common_requests_of_clients", a.commonRequests},
		{"a_bundle_is_launched_by_filename", a.bundles},
		{"counts_of_profiles_agree", a.profileCounts},
		{"a_running_session_stays_running", a.runningSessionSurvives},
		{"operator_commands", a.operatorCommands},
		{"a_launch_right_after_an_end", a.launchAfterEnd},
		{"livez_and_readyz", a.readiness},
		{"data_saved", a.dataSaved},
		{"ports_in_use", a.portsInUse},
		{"debug_port_refuses_an_origin_header", a.debugPort},
		{"a_page_cannot_reach_svc", a.loopbackAddresses},
		{"twenty_one_organizations", a.manyOrganizations},
		{"headers", a.longHeaders},
		{"keys_in_paths_are_masked", a.keysInPaths},
		{"switches_and_tabs", a.switchesAndTabs},
		{"view_tickets_do_not_renew", a.viewTicketRenewal},
		{"ends_of_unknown_profiles", a.unknownProfileEnds},
		{"passwords_and_sign_ups", a.signUpLimits}, // after this, sign-ups from this network are refused
		{"own_key_revoked", a.revokedWorkerKey},    // after this, the worker cannot launch
	} {
		t.Run(point.name, point.test)
	}
}

func newAcceptance(t *testing.T) *acceptance {
	t.Helper()
	dir, ports := publicDir(t), [2]string{freePort(t), freePort(t)}
	a := &acceptance{data: filepath.Join(dir, "data"), demo: startDemo(t, dir, ports)}
	t.Cleanup(func() {
		before := browserProcesses(filepath.Join(a.data, "worker", "launches"))
		a.demo.signalAndWait(t, syscall.SIGINT, stopTimeout)
		a.demo.assertGone(t, 0, dir, before)
	})
	client := &http.Client{
		Timeout:       requestTimeout,
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(client.CloseIdleConnections)
	a.cloud = apiClient{client: client, base: "http://localhost:" + ports[0]}
	a.anonymous = apiClient{client: client, base: "http://localhost:" + ports[1]}
	a.worker, a.fleet = a.anonymous.with("X-API-Key", a.demo.key), a.cloud.with("X-API-Key", a.demo.organizationKey)
	a.owner = a.signIn(t, a.demo.email, a.demo.password)
	session := a.worker.get(t, "/sessions/"+a.demo.session).requireStatus(t, 200)
	a.version, a.profile = session.number("data.browserVersion"), session.text("data.profileId")
	a.org = a.owner.get(t, "/v1/organizations").requireStatus(t, 200).text("data.items.0.id")
	return a
}

func (a *acceptance) signIn(t *testing.T, email, password string) apiClient {
	t.Helper()
	answer := a.cloud.post(t, "/v1/auth/sign-in", fmt.Sprintf(`{"email":%q,"password":%q}`, email, password)).requireStatus(t, 200)
	return a.cloud.with("Authorization", "Bearer "+answer.text("data.token"))
}

// signUp creates a user without an organization.
func (a *acceptance) signUp(t *testing.T) (user apiClient, email, password string) {
	t.Helper()
	email, password = strings.ToLower(rand.Text())+"@example.com", rand.Text()
	answer := a.cloud.post(t, "/v1/auth/sign-up", fmt.Sprintf(`{"email":%q,"password":%q,"name":"Ada"}`, email, password)).requireStatus(t, 201)
	return a.cloud.with("Authorization", "Bearer "+answer.text("data.token")), email, password
}

var mailedToken = regexp.MustCompile(`token=([A-Za-z0-9_-]+)`)

// verify verifies the address of a user with the token of the sign-up mail.
func (a *acceptance) verify(t *testing.T, email string) {
	t.Helper()
	var token string
	eventually(t, 10*time.Second, "the mail is sent", func() error {
		mails, err := filepath.Glob(filepath.Join(a.data, "cloud", "mail", "*.eml"))
		if err != nil {
			return err
		}
		for _, mail := range mails {
			text, readErr := os.ReadFile(mail)
			if found := mailedToken.FindSubmatch(text); readErr == nil && found != nil && strings.Contains(string(text), "To: "+email) {
				token = string(found[1])
				return nil
			}
		}
		return fmt.Errorf("none of %d mails is to %s", len(mails), email)
	})
	a.cloud.post(t, "/v1/auth/verify-email", fmt.Sprintf(`{"token":%q}`, token)).requireStatus(t, 200)
}

// organization creates an organization, activates it and creates a key.
func (a *acceptance) organization(t *testing.T, user apiClient) (id, key, keyID string) {
	t.Helper()
	id = user.post(t, "/v1/organizations", `{"name":"Analytical Engines"}`).requireStatus(t, 201).text("data.id")
	user.post(t, "/v1/organizations/"+id+"/activate", "").requireStatus(t, 200)
	created := user.post(t, "/v1/organizations/"+id+"/api-keys", `{"name":"fleet"}`).requireStatus(t, 201)
	return id, created.text("data.key"), created.text("data.apiKey.id")
}

// launch starts a browser and ends it when the test ends.
func (a *acceptance) launch(t *testing.T, body string) response {
	t.Helper()
	launched := a.worker.post(t, "/sessions/profile", body).requireStatus(t, 201)
	t.Cleanup(func() {
		end, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodDelete, a.worker.base+"/sessions/"+launched.text("data.id"), nil)
		if err != nil {
			t.Fatal(err)
		}
		end.Header.Set("X-API-Key", a.demo.key)
		answer, err := a.worker.client.Do(end)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	})
	return launched
}

// launchRequest returns a request that launches the first profile.
func (a *acceptance) launchRequest() string { return fmt.Sprintf(`{"profileId":%q}`, a.profile) }

// runOperatorCommand runs an operator command of svc-cloud while the cloud runs.
func (a *acceptance) runOperatorCommand(t *testing.T, words ...string) string {
	t.Helper()
	bin, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "svc-cloud"), words...)
	cmd.Dir = filepath.Dir(a.data)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "DATA_DIR=" + filepath.Join(a.data, "cloud"), "PUBLIC_URL=" + a.cloud.base}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("svc-cloud %s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}
