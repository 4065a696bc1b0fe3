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

// acceptance is one `make run` and who asks it. All requests are plain HTTP, all
// answers raw JSON.
type acceptance struct {
	tour    demo
	data    string    // SVC_DIR
	cloud   apiClient // without a credential
	owner   apiClient // the first user
	fleet   apiClient // the first organization's key, at the cloud
	worker  apiClient // the worker key, at the worker
	person  apiClient // of the worker, without a credential
	version int       // of the browser
	profile string    // of the first browser
	org     string
}

// TestAcceptance replays what was once wrong, point by point, against one `make
// run`. Later points find the organization as the earlier ones leave it: with one
// browser and one profile.
func TestAcceptance(t *testing.T) {
	a := newAcceptance(t)
	for _, point := range []struct {
		name string
		test func(*testing.T)
	}{
		{"A01_page_token_opens_once", a.pageTokens},
		{"A02_keys_belong_to_the_active_organization", a.activeOrganization},
		{"A03_profile_limit_tells_the_running_count", a.profileLimit},
		{"A04_validation_errors_have_details", a.details},
		{"A05_refused_keys_of_callers_are_401", a.callersKey},
		{"A06_received_is_what_was_sent", a.received},
		{"A07_downloads_choose_a_platform", a.downloads},
		{"A08_one_control_token_for_a_launch", a.controlToken},
		{"A09_unions_and_empty_lists", a.unions},
		{"A10_remaining_quota", a.quota},
		{"A11_config_and_reclaim", a.integration},
		{"A12_live_tells_what_a_launch_meets", a.live},
		{"A13_ordinary_client_habits", a.habits},
		{"A14_a_bundle_is_launched_by_filename", a.bundles},
		{"A15_counts_of_profiles_agree", a.counts},
		{"A16_a_running_session_goes_on", a.goesOn},
		{"B18_operators_commands", a.operators},
		{"C_a_a_launch_right_after_an_end", a.launchAfterEnd},
		{"D21_livez_and_readyz", a.readiness},
		{"D27_data_saved", a.dataSaved},
		{"D28_taken_ports", a.takenPorts},
		{"F31_debug_port_refuses_an_origin", a.debugPort},
		{"F32_a_page_does_not_reach_svc", a.loopback},
		{"F34_twenty_one_organizations", a.organizations},
		{"F36_headers", a.longHeaders},
		{"F36_keys_in_paths_are_masked", a.keysInPaths},
		{"F36_switches_and_tabs", a.switchesAndTabs},
		{"F36_view_tickets_do_not_renew", a.renewal},
		{"F36_ends_of_unknown_profiles", a.unknownEnds},
		{"F36_passwords_and_sign_ups", a.signUps}, // the network signs up no more
		{"A05_A12_own_key_revoked", a.ownKey},     // the worker launches no more
	} {
		t.Run(point.name, point.test)
	}
}

func newAcceptance(t *testing.T) *acceptance {
	t.Helper()
	dir, ports := publicDir(t), [2]string{freePort(t), freePort(t)}
	a := &acceptance{data: filepath.Join(dir, "data"), tour: startDemo(t, dir, ports)}
	t.Cleanup(func() {
		before := browserProcesses(filepath.Join(a.data, "worker", "launches"))
		a.tour.signalAndWait(t, syscall.SIGINT, stopTimeout)
		a.tour.assertGone(t, 0, dir, before)
	})
	client := &http.Client{
		Timeout:       requestTimeout,
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(client.CloseIdleConnections)
	a.cloud = apiClient{client: client, base: "http://localhost:" + ports[0]}
	a.person = apiClient{client: client, base: "http://localhost:" + ports[1]}
	a.worker, a.fleet = a.person.with("X-API-Key", a.tour.key), a.cloud.with("X-API-Key", a.tour.organizationKey)
	a.owner = a.signIn(t, a.tour.email, a.tour.password)
	session := a.worker.get(t, "/sessions/"+a.tour.session).requireStatus(t, 200)
	a.version, a.profile = session.number("data.browserVersion"), session.text("data.profileId")
	a.org = a.owner.get(t, "/v1/organizations").requireStatus(t, 200).text("data.items.0.id")
	return a
}

func (a *acceptance) signIn(t *testing.T, email, password string) apiClient {
	t.Helper()
	answer := a.cloud.post(t, "/v1/auth/sign-in", fmt.Sprintf(`{"email":%q,"password":%q}`, email, password)).requireStatus(t, 200)
	return a.cloud.with("Authorization", "Bearer "+answer.text("data.token"))
}

// signUp makes a user without an organization.
func (a *acceptance) signUp(t *testing.T) (user apiClient, email, password string) {
	t.Helper()
	email, password = strings.ToLower(rand.Text())+"@example.com", rand.Text()
	answer := a.cloud.post(t, "/v1/auth/sign-up", fmt.Sprintf(`{"email":%q,"password":%q,"name":"Ada"}`, email, password)).requireStatus(t, 201)
	return a.cloud.with("Authorization", "Bearer "+answer.text("data.token")), email, password
}

var mailedToken = regexp.MustCompile(`token=([A-Za-z0-9_-]+)`)

// verify follows the link of the mail that signing up sends.
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
		return fmt.Errorf("none of %d is to %s", len(mails), email)
	})
	a.cloud.post(t, "/v1/auth/verify-email", fmt.Sprintf(`{"token":%q}`, token)).requireStatus(t, 200)
}

// organization makes an organization, which is then the active one, and a key.
func (a *acceptance) organization(t *testing.T, user apiClient) (id, key, keyID string) {
	t.Helper()
	id = user.post(t, "/v1/organizations", `{"name":"Analytical Engines"}`).requireStatus(t, 201).text("data.id")
	user.post(t, "/v1/organizations/"+id+"/activate", "").requireStatus(t, 200)
	created := user.post(t, "/v1/organizations/"+id+"/api-keys", `{"name":"fleet"}`).requireStatus(t, 201)
	return id, created.text("data.key"), created.text("data.apiKey.id")
}

// launch starts a browser, which ends with the test.
func (a *acceptance) launch(t *testing.T, body string) response {
	t.Helper()
	launched := a.worker.post(t, "/sessions/profile", body).requireStatus(t, 201)
	t.Cleanup(func() {
		end, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodDelete, a.worker.base+"/sessions/"+launched.text("data.id"), nil)
		if err != nil {
			t.Fatal(err)
		}
		end.Header.Set("X-API-Key", a.tour.key)
		answer, err := a.worker.client.Do(end)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	})
	return launched
}

// plain is a launch of the first profile.
func (a *acceptance) plain() string { return fmt.Sprintf(`{"profileId":%q}`, a.profile) }

// operate runs a command of svc-cloud beside the running one, as its operator.
func (a *acceptance) operate(t *testing.T, words ...string) string {
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
