package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	openapi_types "github.com/oapi-codegen/runtime/types"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/contracttest"
)

const requestTimeout = 60 * time.Second

// The documents of the two programs.
const (
	cloudDocument  = "cloud.yaml"
	workerDocument = "worker.yaml"
)

// contractClient returns a client that sends a header, and checks requests and
// responses against a document.
func contractClient(t *testing.T, document, header, value string) *http.Client {
	t.Helper()
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.Proxy, base.MaxIdleConnsPerHost = nil, callers
	t.Cleanup(base.CloseIdleConnections)
	client := contracttest.New(t, contracttest.Load(t, document), base)
	client.Transport = withHeader{client.Transport, header, value}
	client.Timeout = requestTimeout
	return client
}

type withHeader struct {
	http.RoundTripper
	name, value string
}

func (w withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.name != "" {
		r = r.Clone(r.Context())
		r.Header.Set(w.name, w.value)
	}
	return w.RoundTripper.RoundTrip(r)
}

// cloud is a running svc-cloud.
type cloud struct {
	*program
	url, dir    string
	environment []string
}

// startCloud starts a cloud with additional environment variables. Without
// DATABASE_URL it runs an embedded PostgreSQL. It is stopped when the test ends and
// must not leak processes.
func startCloud(t *testing.T, environment ...string) *cloud {
	t.Helper()
	port, dir := freePort(t), publicDir(t)
	c := &cloud{url: "http://localhost:" + port, dir: dir}
	c.environment = append([]string{"PORT=" + port, "HOST=127.0.0.1", "DATA_DIR=" + filepath.Join(dir, "data"), "LOG_LEVEL=debug",
		"SIGN_UP=open", "BILLING_SELF_SERVICE=true"}, environment...)
	c.start(t)
	t.Cleanup(func() {
		c.signalAndWait(t, syscall.SIGTERM, stopTimeout)
		if left := processes(func(p process) bool { return p.references(dir) }); len(left) > 0 {
			t.Errorf("the cloud left processes: %v", left)
		}
	})
	return c
}

// start restarts the cloud with the same configuration.
func (c *cloud) start(t *testing.T) {
	t.Helper()
	c.program = startProgram(t, "svc-cloud", c.dir, filepath.Join(c.dir, "cloud.log"), c.environment...)
	c.waitReady(t, c.url+"/health")
}

func (c *cloud) api(t *testing.T, header, value string) *cloudapi.ClientWithResponses {
	t.Helper()
	api, err := cloudapi.NewClientWithResponses(c.url, cloudapi.WithHTTPClient(contractClient(t, cloudDocument, header, value)))
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// account is a user of a cloud with an organization and its key.
type account struct {
	email, password, token string
	org                    uuid.UUID
	key                    string
	keyID                  uuid.UUID
	dashboard              *cloudapi.ClientWithResponses // with the session token
	license                *cloudapi.ClientWithResponses // with the organization key
}

// signUp creates a user, an organization and a key.
func (c *cloud) signUp(t *testing.T) *account {
	t.Helper()
	a := &account{email: strings.ToLower(rand.Text()) + "@example.com", password: rand.Text()}
	user, err := c.api(t, "", "").SignUpWithResponse(t.Context(), cloudapi.SignUpRequest{
		Email: openapi_types.Email(a.email), Password: &a.password, Name: "Ada",
	})
	requireAnswer(t, err, user, http.StatusCreated)
	a.token = user.JSON201.Data.Token
	a.dashboard = c.api(t, "Authorization", "Bearer "+a.token)
	organization, err := a.dashboard.CreateOrganizationWithResponse(t.Context(), cloudapi.CreateOrganizationRequest{Name: "Analytical Engines"})
	requireAnswer(t, err, organization, http.StatusCreated)
	a.org = organization.JSON201.Data.Id
	a.newKey(t, c)
	return a
}

// newKey creates and uses a new organization key.
func (a *account) newKey(t *testing.T, c *cloud) {
	t.Helper()
	key, err := a.dashboard.CreateApiKeyWithResponse(t.Context(), a.org, cloudapi.CreateApiKeyRequest{Name: "fleet"})
	requireAnswer(t, err, key, http.StatusCreated)
	a.key, a.keyID = key.JSON201.Data.Key, key.JSON201.Data.ApiKey.Id
	a.license = c.api(t, "X-API-Key", a.key)
}

// requireAnswer fails the test unless the response has the status.
func requireAnswer(t *testing.T, err error, answer interface {
	StatusCode() int
	GetBody() []byte
}, status int,
) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode() != status {
		t.Fatalf("status %d, want %d: %s", answer.StatusCode(), status, answer.GetBody())
	}
}

// profile creates a profile.
func (a *account) profile(t *testing.T, request cloudapi.CreateProfileRequest) uuid.UUID {
	t.Helper()
	if request.Name == "" {
		request.Name = "A profile"
	}
	created, err := a.dashboard.CreateProfileWithResponse(t.Context(), request)
	requireAnswer(t, err, created, http.StatusCreated)
	return created.JSON201.Data.Id
}

// usage returns the license usage of the organization.
func (a *account) usage(t *testing.T) cloudapi.LicenseSessions {
	t.Helper()
	answer, err := a.license.ListLicenseSessionsWithResponse(t.Context())
	requireAnswer(t, err, answer, http.StatusOK)
	return answer.JSON200.Data
}

// waitForSlots waits until the organization uses the number of slots.
func (a *account) waitForSlots(t *testing.T, count int32, limit time.Duration) {
	t.Helper()
	eventually(t, limit, fmt.Sprintf("%d slots are in use", count), func() error {
		if now := a.usage(t).Current; now != count {
			return fmt.Errorf("%d slots are used", now)
		}
		return nil
	})
}

func (a *account) stats(t *testing.T) cloudapi.ProfileStats {
	t.Helper()
	answer, err := a.dashboard.GetProfileStatsWithResponse(t.Context())
	requireAnswer(t, err, answer, http.StatusOK)
	return answer.JSON200.Data
}

// session returns the session's entry in the organization's feed.
func (a *account) session(t *testing.T, session uuid.UUID) cloudapi.Session {
	t.Helper()
	answer, err := a.dashboard.ListSessionsWithResponse(context.WithoutCancel(t.Context()), &cloudapi.ListSessionsParams{})
	requireAnswer(t, err, answer, http.StatusOK)
	items := answer.JSON200.Data.Items
	i := slices.IndexFunc(items, func(s cloudapi.Session) bool { return s.Id == session })
	if i < 0 {
		t.Fatalf("session %s is not in the feed: %+v", session, items)
	}
	return items[i]
}
