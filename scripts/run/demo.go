package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	openapi_types "github.com/oapi-codegen/runtime/types"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// state is saved for the next run, in a file that only its owner can read.
type state struct {
	Email           string `json:"email"`
	Password        string `json:"password"`
	OrganizationKey string `json:"organizationKey"`
	WorkerKey       string `json:"workerKey"`
}

// demo creates the first user, organization, key, profile and browser, with the
// generated clients.
type demo struct {
	state     state
	token     string
	profileID openapi_types.UUID
	cloud     *cloudapi.ClientWithResponses
	worker    *workerapi.ClientWithResponses
}

const callTimeout = 60 * time.Second

func newDemo(cloudAddress, workerAddress string) (*demo, error) {
	d := &demo{}
	client := &http.Client{Timeout: callTimeout}
	var err error
	d.cloud, err = cloudapi.NewClientWithResponses(cloudAddress, cloudapi.WithHTTPClient(client),
		cloudapi.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			if d.token != "" {
				r.Header.Set("Authorization", "Bearer "+d.token)
			}
			return nil
		}))
	if err != nil {
		return nil, err
	}
	d.worker, err = workerapi.NewClientWithResponses(workerAddress, workerapi.WithHTTPClient(client),
		workerapi.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.Header.Set("X-API-Key", d.state.WorkerKey)
			return nil
		}))
	return d, err
}

func stateFile() string { return filepath.Join(dataDir(), "tour.json") }

// account signs in as the user of the last run, or creates a user with an
// organization and a key.
func (d *demo) account(ctx context.Context) error {
	text, err := os.ReadFile(stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return d.firstAccount(context.WithoutCancel(ctx)) // an incomplete account would break the next run
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &d.state); err != nil {
		return fmt.Errorf("%s: %w", stateFile(), err)
	}
	answer, err := d.cloud.SignInWithResponse(ctx, cloudapi.SignInRequest{
		Email: openapi_types.Email(d.state.Email), Password: &d.state.Password,
	})
	if err != nil {
		return err
	}
	if answer.JSON200 == nil {
		return failed("sign in (remove "+dataDir()+" to start again)", answer.HTTPResponse, answer.Body)
	}
	d.token = answer.JSON200.Data.Token
	return nil
}

func (d *demo) firstAccount(ctx context.Context) error {
	d.state = state{Email: "you@example.com", Password: rand.Text(), WorkerKey: "wrk_" + strings.ToLower(rand.Text())}
	user, err := d.cloud.SignUpWithResponse(ctx, cloudapi.SignUpRequest{
		Email: openapi_types.Email(d.state.Email), Password: &d.state.Password, Name: "You",
	})
	if err != nil {
		return err
	}
	if user.JSON201 == nil {
		return failed("sign up (remove "+dataDir()+" to start again)", user.HTTPResponse, user.Body)
	}
	d.token = user.JSON201.Data.Token
	if err := verifyUser(ctx, d.state.Email); err != nil {
		return err
	}
	organization, err := d.cloud.CreateOrganizationWithResponse(ctx, cloudapi.CreateOrganizationRequest{Name: "First organization"})
	if err != nil {
		return err
	}
	if organization.JSON201 == nil {
		return failed("create the organization", organization.HTTPResponse, organization.Body)
	}
	key, err := d.cloud.CreateApiKeyWithResponse(ctx, organization.JSON201.Data.Id, cloudapi.CreateApiKeyRequest{Name: "first worker"})
	if err != nil {
		return err
	}
	if key.JSON201 == nil {
		return failed("create the key", key.HTTPResponse, key.Body)
	}
	d.state.OrganizationKey = key.JSON201.Data.Key
	text, err := json.MarshalIndent(d.state, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(stateFile(), append(text, '\n'), 0o600)
}

// verifyUser verifies an address that no mail can reach.
func verifyUser(ctx context.Context, email string) error {
	command := exec.CommandContext(ctx, filepath.Join("bin", "svc-cloud"), "users", "verify", email)
	command.Env = append(os.Environ(), "DATABASE_URL=", "DATA_DIR="+cloudDataDir(), "LOG_LEVEL=error")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("verify the user: %w: %s", err, strings.TrimSpace(string(output)))
	}
	return nil
}

// profile finds a profile for the newest installed browser, or creates one.
func (d *demo) profile(ctx context.Context) error {
	versions, err := d.worker.ListBrowserVersionsWithResponse(ctx)
	if err != nil {
		return err
	}
	if versions.JSON200 == nil || len(versions.JSON200.Data.Versions) == 0 {
		return failed("list the installed browsers", versions.HTTPResponse, versions.Body)
	}
	newest := versions.JSON200.Data.Versions[0]
	listed, err := d.cloud.ListProfilesWithResponse(ctx, &cloudapi.ListProfilesParams{BrowserVersion: &newest})
	if err != nil {
		return err
	}
	if listed.JSON200 == nil {
		return failed("list the profiles", listed.HTTPResponse, listed.Body)
	}
	if found := listed.JSON200.Data.Items; len(found) > 0 {
		d.profileID = found[len(found)-1].Id
		return nil
	}
	created, err := d.cloud.CreateProfileWithResponse(ctx, cloudapi.CreateProfileRequest{Name: "First profile", BrowserVersion: newest})
	if err != nil {
		return err
	}
	if created.JSON201 == nil {
		return failed("create the profile", created.HTTPResponse, created.Body)
	}
	d.profileID = created.JSON201.Data.Id
	return nil
}

// limits says which isolation this machine does not provide, such as without root.
func (d *demo) limits(ctx context.Context) string {
	answer, err := d.worker.GetWorkerHealthWithResponse(ctx)
	if err != nil || answer.JSON200 == nil || answer.JSON200.Data.Isolation.Complete {
		return ""
	}
	var missing []string
	for _, name := range answer.JSON200.Data.Isolation.Missing {
		missing = append(missing, string(name))
	}
	return ". This machine does not provide " + strings.Join(missing, ", ") + ": svc doctor says what this means"
}

func (d *demo) launch(ctx context.Context) (workerapi.BrowserSession, error) {
	answer, err := d.worker.LaunchProfileWithResponse(ctx, workerapi.LaunchProfileRequest{ProfileId: &d.profileID})
	if err != nil {
		return workerapi.BrowserSession{}, err
	}
	if answer.JSON201 == nil {
		return workerapi.BrowserSession{}, failed("launch", answer.HTTPResponse, answer.Body)
	}
	return answer.JSON201.Data, nil
}

// signInLink returns a link to the dashboard that signs the user in once.
func (d *demo) signInLink(ctx context.Context) (string, error) {
	answer, err := d.cloud.CreateSignInLinkWithResponse(ctx)
	if err != nil {
		return "", err
	}
	if answer.JSON200 == nil {
		return "", failed("create the sign-in link", answer.HTTPResponse, answer.Body)
	}
	return answer.JSON200.Data.Url, nil
}

func failed(what string, response *http.Response, body []byte) error {
	return fmt.Errorf("%s: response %s: %s", what, response.Status, strings.TrimSpace(string(body)))
}

// environmentFile has the addresses and keys, for shells.
func environmentFile() string { return filepath.Join(dataDir(), "env") }

// writeEnvironment writes the file, which only its owner can read.
func (d *demo) writeEnvironment() error {
	bin, err := filepath.Abs("bin")
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Addresses and keys of make run, for svc and other clients.\n# Dashboard: sign in as %s with the password %s\n", d.state.Email, d.state.Password)
	for _, variable := range [][2]string{
		{"SVC_WORKER", workerURL()}, {"SVC_API_KEY", d.state.WorkerKey}, {"SVC_CLOUD_URL", cloudURL()}, {"SVC_TOKEN", d.token},
		{"SVC_ORGANIZATION_KEY", d.state.OrganizationKey},
	} {
		fmt.Fprintf(&b, "export %s='%s'\n", variable[0], variable[1])
	}
	fmt.Fprintf(&b, "export PATH='%s':\"$PATH\"\n", strings.ReplaceAll(bin, "'", `'\''`))
	if err := os.Remove(environmentFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(environmentFile(), []byte(b.String()), 0o600)
}

func (d *demo) print(s workerapi.BrowserSession, dashboard string, took time.Duration) {
	fmt.Printf(`
Dashboard   %s  (signs you in once, for five minutes)
Worker      %s  (console: /, documentation: /docs)
Keys        %s
Browser     Chromium %d, session %s

  . '%[3]s' && svc run -- sh -c 'echo Connect to $BROWSER_WS'

Ready after %.1[6]f seconds. Ctrl-C stops all programs. The data stays in %[7]s.
`, dashboard, workerURL(), environmentFile(), s.BrowserVersion, s.Id, took.Seconds(), dataDir())
}

// printAddresses prints what --verbose adds, with tokens.
func (d *demo) printAddresses(s workerapi.BrowserSession) {
	fmt.Printf(`
Cloud API   %s  (documentation: /docs)
Sign in as  %s  password: %s
Watch it    %s
DevTools    %s
CDP         %s
Selenium    debuggerAddress localhost:%d
`, cloudURL(), d.state.Email, d.state.Password, *s.ViewUrl, *s.DevtoolsFrontendUrl, *s.WebSocketDebuggerUrl, *s.DebugPort)
}
