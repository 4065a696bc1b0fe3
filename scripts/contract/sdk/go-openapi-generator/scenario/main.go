// scenario runs the common SDK scenario with the modules of openapi-generator.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"svc.example/sdk/cloudapi"
	"svc.example/sdk/workerapi"
)

// seed is the content of the file at SEED.
type seed struct {
	OrganizationID  string `json:"organizationId"`
	OrganizationKey string `json:"organizationKey"`
	WorkerKey       string `json:"workerKey"`
	BrowserVersion  int32  `json:"browserVersion"`
	Owner           struct{ Email, Password string }
	// Full is an organization whose slots are all taken.
	Full struct {
		OrganizationKey string `json:"organizationKey"`
		ProfileID       string `json:"profileId"`
	}
}

type scenario struct {
	seed   seed
	cloud  *cloudapi.APIClient
	worker *workerapi.APIClient
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
	text, err := os.ReadFile(os.Getenv("SEED"))
	if err != nil {
		return err
	}
	s := scenario{cloud: openCloud(os.Getenv("CLOUD_URL")), worker: openWorker(os.Getenv("WORKER_URL"))}
	if err := json.Unmarshal(text, &s.seed); err != nil {
		return err
	}
	dashboard, err := s.signIn(ctx)
	if err != nil {
		return err
	}
	profile, err := s.createProfile(dashboard)
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
	if err := s.pageThroughProfiles(dashboard); err != nil {
		return err
	}
	if err := s.endReservation(ctx, profile, reservation); err != nil {
		return err
	}
	return s.cleanUp(dashboard, profile)
}

func openCloud(url string) *cloudapi.APIClient {
	configuration := cloudapi.NewConfiguration()
	configuration.Servers = cloudapi.ServerConfigurations{{URL: url}}
	return cloudapi.NewAPIClient(configuration)
}

func openWorker(url string) *workerapi.APIClient {
	configuration := workerapi.NewConfiguration()
	configuration.Servers = workerapi.ServerConfigurations{{URL: url}}
	return workerapi.NewAPIClient(configuration)
}

// withKey returns a context with an organization key, for requests to the cloud.
func withKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, cloudapi.ContextAPIKeys, map[string]cloudapi.APIKey{"organizationKey": {Key: key}})
}

// signIn signs in and returns a context with the credential of the user.
func (s *scenario) signIn(ctx context.Context) (context.Context, error) {
	request := *cloudapi.NewSignInRequest(s.seed.Owner.Email, s.seed.Owner.Password)
	signedIn, _, err := s.cloud.AuthenticationAPI.SignIn(ctx).SignInRequest(request).Execute()
	if err != nil {
		return nil, unexpected("sign in", nil, err)
	}
	printStep("sign in as %s until %s", signedIn.Data.User.Email, signedIn.Data.ExpiresAt)

	ctx = context.WithValue(ctx, cloudapi.ContextAccessToken, signedIn.Data.Token)
	activated, _, err := s.cloud.OrganizationsAPI.ActivateOrganization(ctx, s.seed.OrganizationID).Execute()
	if err != nil || !activated.Data.Active {
		return nil, unexpected("activate the organization", activated, err)
	}
	printStep("activate organization %s as %s", activated.Data.Slug, activated.Data.Role)
	return ctx, nil
}

func (s *scenario) createProfile(dashboard context.Context) (string, error) {
	request := *cloudapi.NewCreateProfileRequest(s.seed.BrowserVersion, "Größe ✓")
	request.SetNotes("by openapi-generator's go client")
	request.SetLocale("de-DE")
	created, _, err := s.cloud.ProfilesAPI.CreateProfile(dashboard).CreateProfileRequest(request).Execute()
	if err != nil {
		return "", unexpected("create a profile", nil, err)
	}
	if profile := created.Data; profile.Name != "Größe ✓" || profile.GetLocale() != "de-DE" || profile.Proxy.Get() != nil {
		return "", unexpected("create a profile", created, nil)
	}
	printStep("create profile %s in version %d", created.Data.Id, created.Data.Version)
	return created.Data.Id, nil
}

// authorize reserves a slot and returns its session.
func (s *scenario) authorize(ctx context.Context, profile string) (string, error) {
	session := uuid()
	request := *cloudapi.NewAuthorizeRequest(uuid(), "sdk-go-openapi-generator", session)
	request.SetProfileId(profile)
	answer, _, err := s.cloud.LicenseAPI.AuthorizeLaunch(withKey(ctx, s.seed.OrganizationKey)).AuthorizeRequest(request).Execute()
	if err != nil || !answer.Data.Allowed || answer.Data.Limit.Get() != nil {
		return "", unexpected("authorize", answer, err)
	}
	printStep("authorize: allowed, %d in use, no limit", answer.Data.Current)
	return session, nil
}

// authorizeAtLimit requests a slot of the full organization and expects a refusal.
func (s *scenario) authorizeAtLimit(ctx context.Context) error {
	request := *cloudapi.NewAuthorizeRequest(uuid(), "sdk-go-openapi-generator", uuid())
	request.SetProfileId(s.seed.Full.ProfileID)
	answer, response, err := s.cloud.LicenseAPI.AuthorizeLaunch(withKey(ctx, s.seed.Full.OrganizationKey)).AuthorizeRequest(request).Execute()
	refusal, ok := errors.AsType[*cloudapi.GenericOpenAPIError](err)
	if !ok || response.StatusCode != http.StatusPaymentRequired {
		return unexpected("authorize at the limit", answer, err)
	}
	authorization, ok := refusal.Model().(cloudapi.AuthorizeResponse)
	if !ok || authorization.Data.Allowed || authorization.Data.GetReason() != cloudapi.REFUSALREASON_CONCURRENCY_LIMIT {
		return unexpected("authorize at the limit", authorization, err)
	}
	printStep("authorize at the limit: %d, allowed %t, %s, %d of %d", response.StatusCode,
		authorization.Data.Allowed, authorization.Data.GetReason(), authorization.Data.Current, authorization.Data.GetLimit())
	return nil
}

// useBrowser launches a browser, reads the session, sends an invalid launch, and ends the
// browser.
func (s *scenario) useBrowser(ctx context.Context, profile string) error {
	ctx = context.WithValue(ctx, workerapi.ContextAPIKeys, map[string]workerapi.APIKey{"workerKey": {Key: s.seed.WorkerKey}})
	sessions := s.worker.SessionsAPI
	request := workerapi.LaunchProfileRequest{ProfileId: &profile, Browser: &workerapi.BrowserSettings{Headless: new(true)}}
	launched, _, err := sessions.LaunchProfile(ctx).LaunchProfileRequest(request).Execute()
	if err != nil {
		return unexpected("launch", nil, err)
	}
	printStep("launch session %s: %s", launched.Data.Id, launched.Data.Status)

	read, _, err := sessions.GetBrowserSession(ctx, launched.Data.Id).Execute()
	if err != nil || read.Data.Status != workerapi.SESSIONSTATUS_RUNNING || read.Data.EndedAt.Get() != nil {
		return unexpected("read the session", read, err)
	}
	printStep("read the session: Chromium %d, port %d", read.Data.BrowserVersion, read.Data.GetDebugPort())

	request.Spec = &workerapi.LaunchSpec{}
	_, _, err = sessions.LaunchProfile(ctx).LaunchProfileRequest(request).Execute()
	refused, ok := errors.AsType[*workerapi.GenericOpenAPIError](err)
	if !ok {
		return unexpected("launch a profile and a spec", nil, err)
	}
	answer, ok := refused.Model().(workerapi.ErrorResponse)
	details := answer.Error.GetDetails()
	if !ok || answer.Error.Code != workerapi.ERRORCODE_VALIDATION_ERROR || !slices.ContainsFunc(details, func(d workerapi.ErrorDetail) bool {
		return d.Field == "profileId" && d.Code == workerapi.ERRORDETAILCODE_INVALID_UNION
	}) {
		return unexpected("launch a profile and a spec", answer, err)
	}
	printStep("%s: %s %s", answer.Error.Code, details[0].Field, details[0].Code)

	killed, _, err := sessions.KillBrowserSession(ctx, launched.Data.Id).Execute()
	if err != nil || killed.Data.Status != workerapi.SESSIONSTATUS_KILLED {
		return unexpected("kill the session", killed, err)
	}
	printStep("kill the session: %s, %s", killed.Data.Status, killed.Data.GetEndReason())
	return nil
}

func (s *scenario) pageThroughProfiles(dashboard context.Context) error {
	count := 0
	for page, more := int32(1), true; more; page++ {
		list, _, err := s.cloud.ProfilesAPI.ListProfiles(dashboard).Page(page).Limit(1).Execute()
		if err != nil {
			return unexpected("list the profiles", nil, err)
		}
		count += len(list.Data.Items)
		more = list.Data.Pagination.HasNext
		if !more && list.Data.Pagination.Total != int64(count) {
			return unexpected("list the profiles", list, nil)
		}
	}
	printStep("page through %d profiles, one a page", count)
	return nil
}

func (s *scenario) endReservation(ctx context.Context, profile, reservation string) error {
	ended, _, err := s.cloud.WorkerIntegrationAPI.EndProfileSession(withKey(ctx, s.seed.OrganizationKey), profile, reservation).Execute()
	if err != nil || ended.Data.SessionId != reservation {
		return unexpected("end the reservation", ended, err)
	}
	printStep("end the reservation")
	return nil
}

// cleanUp deletes the profile after the worker has reported the end of the session,
// and signs out.
func (s *scenario) cleanUp(dashboard context.Context, profile string) error {
	deadline := time.Now().Add(10 * time.Second)
	_, response, err := s.cloud.ProfilesAPI.DeleteProfile(dashboard, profile).Execute()
	for err != nil && response != nil && response.StatusCode == http.StatusConflict && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
		_, response, err = s.cloud.ProfilesAPI.DeleteProfile(dashboard, profile).Execute()
	}
	if err != nil {
		return unexpected("delete the profile", nil, err)
	}
	printStep("delete the profile")

	if _, _, err := s.cloud.AuthenticationAPI.SignOut(dashboard).Execute(); err != nil {
		return unexpected("sign out", nil, err)
	}
	printStep("sign out")
	return nil
}

// unexpected returns an error with the unexpected response.
func unexpected(step string, answer any, err error) error {
	if failure, ok := errors.AsType[interface {
		error
		Body() []byte
	}](err); ok {
		return fmt.Errorf("%s: %w: %s", step, err, failure.Body())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	text, _ := json.Marshal(answer)
	return fmt.Errorf("%s: the response was %s", step, text)
}

// uuid returns a random UUID, which the standard library cannot create.
func uuid() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func printStep(format string, values ...any) { fmt.Printf("ok  "+format+"\n", values...) }
