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
	"path/filepath"
	"strings"
	"time"

	openapi_types "github.com/oapi-codegen/runtime/types"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// state is what a second run finds again. The file is readable by its owner
// alone.
type state struct {
	Email           string `json:"email"`
	Password        string `json:"password"`
	OrganizationKey string `json:"organizationKey"`
	WorkerKey       string `json:"workerKey"`
}

// demo makes the first user, organization, key, profile and browser, through
// the generated clients as any integrator would.
type demo struct {
	state     state
	token     string
	profileID openapi_types.UUID
	cloud     *cloudapi.ClientWithResponses
	worker    *workerapi.ClientWithResponses
}

const callTimeout = 60 * time.Second

func newDemo(cloudAddress, workerAddress string) (*demo, error) {
	t := &demo{}
	client := &http.Client{Timeout: callTimeout}
	var err error
	t.cloud, err = cloudapi.NewClientWithResponses(cloudAddress, cloudapi.WithHTTPClient(client),
		cloudapi.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			if t.token != "" {
				r.Header.Set("Authorization", "Bearer "+t.token)
			}
			return nil
		}))
	if err != nil {
		return nil, err
	}
	t.worker, err = workerapi.NewClientWithResponses(workerAddress, workerapi.WithHTTPClient(client),
		workerapi.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.Header.Set("X-API-Key", t.state.WorkerKey)
			return nil
		}))
	return t, err
}

func stateFile() string { return filepath.Join(dataDir(), "tour.json") }

// account signs in as the user of the last run, or creates a user with an
// organization and a key.
func (t *demo) account(ctx context.Context) error {
	text, err := os.ReadFile(stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return t.firstAccount(context.WithoutCancel(ctx)) // an incomplete account would break the next run
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &t.state); err != nil {
		return fmt.Errorf("%s: %w", stateFile(), err)
	}
	answer, err := t.cloud.SignInWithResponse(ctx, cloudapi.SignInRequest{
		Email: openapi_types.Email(t.state.Email), Password: &t.state.Password,
	})
	if err != nil {
		return err
	}
	if answer.JSON200 == nil {
		return failed("sign in (remove "+dataDir()+" to begin anew)", answer.HTTPResponse, answer.Body)
	}
	t.token = answer.JSON200.Data.Token
	return nil
}

func (t *demo) firstAccount(ctx context.Context) error {
	t.state = state{Email: "you@example.com", Password: rand.Text(), WorkerKey: "wrk_" + strings.ToLower(rand.Text())}
	user, err := t.cloud.SignUpWithResponse(ctx, cloudapi.SignUpRequest{
		Email: openapi_types.Email(t.state.Email), Password: &t.state.Password, Name: "You",
	})
	if err != nil {
		return err
	}
	if user.JSON201 == nil {
		return failed("sign up (remove "+dataDir()+" to begin anew)", user.HTTPResponse, user.Body)
	}
	t.token = user.JSON201.Data.Token
	organization, err := t.cloud.CreateOrganizationWithResponse(ctx, cloudapi.CreateOrganizationRequest{Name: "First organization"})
	if err != nil {
		return err
	}
	if organization.JSON201 == nil {
		return failed("create the organization", organization.HTTPResponse, organization.Body)
	}
	key, err := t.cloud.CreateApiKeyWithResponse(ctx, organization.JSON201.Data.Id, cloudapi.CreateApiKeyRequest{Name: "first worker"})
	if err != nil {
		return err
	}
	if key.JSON201 == nil {
		return failed("create the key", key.HTTPResponse, key.Body)
	}
	t.state.OrganizationKey = key.JSON201.Data.Key
	text, err := json.MarshalIndent(t.state, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(stateFile(), append(text, '\n'), 0o600)
}

// profile finds a profile for the newest installed browser, or creates one.
func (t *demo) profile(ctx context.Context) error {
	versions, err := t.worker.ListBrowserVersionsWithResponse(ctx)
	if err != nil {
		return err
	}
	if versions.JSON200 == nil || len(versions.JSON200.Data.Versions) == 0 {
		return failed("list the installed browsers", versions.HTTPResponse, versions.Body)
	}
	newest := versions.JSON200.Data.Versions[0]
	listed, err := t.cloud.ListProfilesWithResponse(ctx, &cloudapi.ListProfilesParams{BrowserVersion: &newest})
	if err != nil {
		return err
	}
	if listed.JSON200 == nil {
		return failed("list the profiles", listed.HTTPResponse, listed.Body)
	}
	if found := listed.JSON200.Data.Items; len(found) > 0 {
		t.profileID = found[len(found)-1].Id
		return nil
	}
	created, err := t.cloud.CreateProfileWithResponse(ctx, cloudapi.CreateProfileRequest{Name: "First profile", BrowserVersion: newest})
	if err != nil {
		return err
	}
	if created.JSON201 == nil {
		return failed("create the profile", created.HTTPResponse, created.Body)
	}
	t.profileID = created.JSON201.Data.Id
	return nil
}

func (t *demo) launch(ctx context.Context) (workerapi.BrowserSession, error) {
	answer, err := t.worker.LaunchProfileWithResponse(ctx, workerapi.LaunchProfileRequest{ProfileId: &t.profileID})
	if err != nil {
		return workerapi.BrowserSession{}, err
	}
	if answer.JSON201 == nil {
		return workerapi.BrowserSession{}, failed("launch", answer.HTTPResponse, answer.Body)
	}
	return answer.JSON201.Data, nil
}

func failed(what string, response *http.Response, body []byte) error {
	return fmt.Errorf("%s: response %s: %s", what, response.Status, strings.TrimSpace(string(body)))
}

func (t *demo) print(s workerapi.BrowserSession, took time.Duration) {
	fmt.Printf(`
Ready after %.1f seconds.

  Cloud API     %s          explorer: %s/docs
  Worker API    %s          explorer: %s/docs
  Sign in as    %s          password: %s
  SVC_KEY       %s
  X-API-Key     %s          (the worker key)

A browser runs (session %s, Chromium %d):

  Watch it      %s
  DevTools      %s
  CDP           %s
  Selenium      debuggerAddress localhost:%d

Drive it with puppeteer: paste this into a shell, after npm install puppeteer-core

  node -e "(async () => { const browser = await require('puppeteer-core').connect({browserWSEndpoint: '%s'});
    const page = await browser.newPage(); await page.goto('data:text/html,<title>It works</title>');
    console.log(await page.title()); await browser.disconnect(); })()"

End it:

  curl -X DELETE -H 'X-API-Key: %s' %s/sessions/%s

Browsers reach servers on this machine's loopback, but not svc's own: see ALLOWED_HOSTS in worker/CONFIGURATION.md.

Ctrl-C ends everything. The data stays in %s and is used by the next run.
`, took.Seconds(), cloudURL(), cloudURL(), workerURL(), workerURL(), t.state.Email, t.state.Password,
		t.state.OrganizationKey, t.state.WorkerKey, s.Id, s.BrowserVersion, *s.ViewUrl, *s.DevtoolsFrontendUrl,
		*s.WebSocketDebuggerUrl, *s.DebugPort, *s.WebSocketDebuggerUrl, t.state.WorkerKey, workerURL(), s.Id, dataDir())
}
