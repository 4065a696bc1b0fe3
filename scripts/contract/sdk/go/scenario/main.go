// scenario runs the common SDK scenario with the packages of oapi-codegen.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/oapi-codegen/nullable"
	openapi_types "github.com/oapi-codegen/runtime/types"

	"svc.example/sdk/cloudapi"
	"svc.example/sdk/workerapi"
)

// seed is the content of the file at SEED.
type seed struct {
	OrganizationID  uuid.UUID `json:"organizationId"`
	OrganizationKey string    `json:"organizationKey"`
	WorkerKey       string    `json:"workerKey"`
	BrowserVersion  int32     `json:"browserVersion"`
	Owner           struct{ Email, Password string }
	// Full is an organization whose slots are all taken.
	Full struct {
		OrganizationKey string    `json:"organizationKey"`
		ProfileID       uuid.UUID `json:"profileId"`
	}
}

type scenario struct {
	seed   seed
	cloud  *cloudapi.ClientWithResponses
	worker *workerapi.ClientWithResponses
	token  string
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	s, err := open(os.Getenv("SEED"), os.Getenv("CLOUD_URL"), os.Getenv("WORKER_URL"))
	if err != nil {
		return err
	}
	if err := s.signIn(ctx); err != nil {
		return err
	}
	profile, err := s.createProfile(ctx)
	if err != nil {
		return err
	}
	reservation, err := s.authorize(ctx, profile)
	if err != nil {
		return err
	}
	if err := s.authorizeAtLimit(ctx); err != nil {
		return err
	}
	if err := s.useBrowser(ctx, profile); err != nil {
		return err
	}
	if err := s.pageThroughProfiles(ctx); err != nil {
		return err
	}
	return s.cleanUp(ctx, profile, reservation)
}

func open(file, cloud, worker string) (*scenario, error) {
	s := &scenario{}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &s.seed); err != nil {
		return nil, err
	}
	if s.cloud, err = cloudapi.NewClientWithResponses(cloud); err != nil {
		return nil, err
	}
	s.worker, err = workerapi.NewClientWithResponses(worker, workerapi.WithRequestEditorFn(withKey(s.seed.WorkerKey)))
	return s, err
}

func withKey(key string) func(context.Context, *http.Request) error {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set("X-API-Key", key)
		return nil
	}
}

// withToken adds the credential of the signed-in user to a request.
func (s *scenario) withToken(_ context.Context, r *http.Request) error {
	r.Header.Set("Authorization", "Bearer "+s.token)
	return nil
}

func (s *scenario) signIn(ctx context.Context) error {
	signedIn, err := s.cloud.SignInWithResponse(ctx, cloudapi.SignInRequest{
		Email: openapi_types.Email(s.seed.Owner.Email), Password: s.seed.Owner.Password,
	})
	if err != nil || signedIn.JSON200 == nil {
		return unexpected("sign in", signedIn, err)
	}
	s.token = signedIn.JSON200.Data.Token
	printStep("sign in as %s until %s", signedIn.JSON200.Data.User.Email, signedIn.JSON200.Data.ExpiresAt)

	activated, err := s.cloud.ActivateOrganizationWithResponse(ctx, s.seed.OrganizationID, nil, s.withToken)
	if err != nil || activated.JSON200 == nil || !activated.JSON200.Data.Active {
		return unexpected("activate the organization", activated, err)
	}
	printStep("activate organization %s as %s", activated.JSON200.Data.Slug, activated.JSON200.Data.Role)
	return nil
}

func (s *scenario) createProfile(ctx context.Context) (uuid.UUID, error) {
	created, err := s.cloud.CreateProfileWithResponse(ctx, nil, cloudapi.CreateProfileRequest{
		Name: "Größe ✓", BrowserVersion: s.seed.BrowserVersion, Notes: new("by the go client"), Locale: nullable.NewNullableWithValue("de-DE"),
	}, s.withToken)
	if err != nil || created.JSON201 == nil {
		return uuid.Nil, unexpected("create a profile", created, err)
	}
	profile := created.JSON201.Data
	if profile.Name != "Größe ✓" || profile.Locale.MustGet() != "de-DE" || !profile.Proxy.IsNull() || created.Headers201.ETag == "" {
		return uuid.Nil, unexpected("create a profile", created, nil)
	}
	printStep("create profile %s in version %d", profile.Id, profile.Version)
	return profile.Id, nil
}

// authorize reserves a slot and returns its session.
func (s *scenario) authorize(ctx context.Context, profile uuid.UUID) (uuid.UUID, error) {
	session := uuid.New()
	response, err := s.cloud.AuthorizeLaunchWithResponse(ctx, nil, cloudapi.AuthorizeRequest{
		MachineId: "sdk-go", BootId: uuid.New(), SessionId: session, ProfileId: &profile,
	}, withKey(s.seed.OrganizationKey))
	if err != nil || response.JSON200 == nil || !response.JSON200.Data.Allowed || !response.JSON200.Data.Limit.IsNull() {
		return uuid.Nil, unexpected("authorize", response, err)
	}
	printStep("authorize: allowed, %d in use, no limit", response.JSON200.Data.Current)
	return session, nil
}

// authorizeAtLimit requests a slot of the full organization and expects a refusal.
func (s *scenario) authorizeAtLimit(ctx context.Context) error {
	response, err := s.cloud.AuthorizeLaunchWithResponse(ctx, nil, cloudapi.AuthorizeRequest{
		MachineId: "sdk-go", BootId: uuid.New(), SessionId: uuid.New(), ProfileId: &s.seed.Full.ProfileID,
	}, withKey(s.seed.Full.OrganizationKey))
	if err != nil || response.JSON402 == nil {
		return unexpected("authorize at the limit", response, err)
	}
	refusal := response.JSON402.Data
	if refusal.Allowed || refusal.Reason == nil || *refusal.Reason != cloudapi.RefusalReasonConcurrencyLimit {
		return unexpected("authorize at the limit", response, nil)
	}
	printStep("authorize at the limit: 402, allowed %t, %s, %d of %d", refusal.Allowed, *refusal.Reason, refusal.Current, refusal.Limit.MustGet())
	return nil
}

// useBrowser launches a browser, reads the session, sends an invalid launch, and ends the
// browser.
func (s *scenario) useBrowser(ctx context.Context, profile uuid.UUID) error {
	request := workerapi.LaunchProfileRequest{ProfileId: &profile, Browser: &workerapi.BrowserSettings{Headless: new(true)}}
	launched, err := s.worker.LaunchProfileWithResponse(ctx, request)
	if err != nil || launched.JSON201 == nil {
		return unexpected("launch", launched, err)
	}
	session := launched.JSON201.Data.Id
	printStep("launch session %s: %s", session, launched.JSON201.Data.Status)

	read, err := s.worker.GetBrowserSessionWithResponse(ctx, session)
	if err != nil || read.JSON200 == nil || read.JSON200.Data.Status != workerapi.SessionStatusRunning || !read.JSON200.Data.EndedAt.IsNull() {
		return unexpected("read the session", read, err)
	}
	printStep("read the session: Chromium %d, port %d", read.JSON200.Data.BrowserVersion, read.JSON200.Data.DebugPort.MustGet())

	request.Spec = &workerapi.LaunchSpec{}
	refused, err := s.worker.LaunchProfileWithResponse(ctx, request)
	if err != nil || refused.JSON400 == nil || refused.JSON400.Error.Details == nil {
		return unexpected("launch a profile and a spec", refused, err)
	}
	wrong := refused.JSON400.Error
	if wrong.Code != workerapi.ErrorCodeValidationError || !slices.ContainsFunc(*wrong.Details, func(d workerapi.ErrorDetail) bool {
		return d.Field == "profileId" && d.Code == workerapi.ErrorDetailCodeInvalidUnion
	}) {
		return unexpected("launch a profile and a spec", refused, nil)
	}
	printStep("%s: %s %s", wrong.Code, (*wrong.Details)[0].Field, (*wrong.Details)[0].Code)

	killed, err := s.worker.KillBrowserSessionWithResponse(ctx, session)
	if err != nil || killed.JSON200 == nil || killed.JSON200.Data.Status != workerapi.SessionStatusKilled {
		return unexpected("kill the session", killed, err)
	}
	printStep("kill the session: %s, %s", killed.JSON200.Data.Status, killed.JSON200.Data.EndReason.MustGet())
	return nil
}

func (s *scenario) pageThroughProfiles(ctx context.Context) error {
	count := 0
	for page, more := int32(1), true; more; page++ {
		list, err := s.cloud.ListProfilesWithResponse(ctx, &cloudapi.ListProfilesParams{Page: &page, Limit: new(int32(1))}, s.withToken)
		if err != nil || list.JSON200 == nil {
			return unexpected("list the profiles", list, err)
		}
		count += len(list.JSON200.Data.Items)
		more = list.JSON200.Data.Pagination.HasNext
		if !more && list.JSON200.Data.Pagination.Total != int64(count) {
			return unexpected("list the profiles", list, nil)
		}
	}
	printStep("page through %d profiles, one a page", count)
	return nil
}

// cleanUp ends the reservation, deletes the profile after the worker has reported the
// end of the session, and signs out.
func (s *scenario) cleanUp(ctx context.Context, profile, reservation uuid.UUID) error {
	ended, err := s.cloud.EndProfileSessionWithResponse(ctx, profile, reservation, cloudapi.EndSessionRequest{}, withKey(s.seed.OrganizationKey))
	if err != nil || ended.JSON200 == nil || ended.JSON200.Data.SessionId != reservation {
		return unexpected("end the reservation", ended, err)
	}
	printStep("end the reservation")

	deadline := time.Now().Add(10 * time.Second)
	deleted, err := s.cloud.DeleteProfileWithResponse(ctx, profile, nil, s.withToken)
	for err == nil && deleted.JSON409 != nil && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
		deleted, err = s.cloud.DeleteProfileWithResponse(ctx, profile, nil, s.withToken)
	}
	if err != nil || deleted.JSON200 == nil {
		return unexpected("delete the profile", deleted, err)
	}
	printStep("delete the profile")

	signedOut, err := s.cloud.SignOutWithResponse(ctx, s.withToken)
	if err != nil || signedOut.JSON200 == nil {
		return unexpected("sign out", signedOut, err)
	}
	printStep("sign out")
	return nil
}

// result is a response of the cloud or worker client.
type result interface {
	Status() string
	GetBody() []byte
}

// unexpected returns an error with the unexpected response.
func unexpected(step string, response result, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	return fmt.Errorf("%s: %s %s", step, response.Status(), response.GetBody())
}

func printStep(format string, values ...any) { fmt.Printf("ok  "+format+"\n", values...) }
