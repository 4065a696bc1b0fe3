package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	openapi_types "github.com/oapi-codegen/runtime/types"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// seeder creates users, organizations and their data with the generated clients.
type seeder struct {
	cloudURL, workerURL string
	mail                mailbox
}

const callTimeout = 60 * time.Second

// user is a user with a session.
type user struct {
	Email    string    `json:"email"`
	Password string    `json:"password"`
	Token    string    `json:"token"`
	UserID   uuid.UUID `json:"userId"`

	api *cloudapi.ClientWithResponses
}

// tenant is an organization with a key and a profile.
type tenant struct {
	OrganizationID  uuid.UUID `json:"organizationId"`
	OrganizationKey string    `json:"organizationKey"`
	ProfileID       uuid.UUID `json:"profileId"`
}

// cloud returns a client that sends a header, unless the name is empty.
func (p *seeder) cloud(header, value string) (*cloudapi.ClientWithResponses, error) {
	return cloudapi.NewClientWithResponses(p.cloudURL, cloudapi.WithHTTPClient(withHeader(header, value)))
}

func (p *seeder) worker(key string) (*workerapi.ClientWithResponses, error) {
	return workerapi.NewClientWithResponses(p.workerURL, workerapi.WithHTTPClient(withHeader("X-API-Key", key)))
}

type headerTransport struct {
	http.RoundTripper
	name, value string
}

func withHeader(name, value string) *http.Client {
	return &http.Client{Transport: headerTransport{directTransport(), name, value}, Timeout: callTimeout}
}

// RoundTrip implements http.RoundTripper.
func (h headerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if h.name != "" {
		r = r.Clone(r.Context())
		r.Header.Set(h.name, h.value)
	}
	return h.RoundTripper.RoundTrip(r)
}

// answer is the interface of the responses of the generated clients.
type answer interface {
	StatusCode() int
	GetBody() []byte
}

// requireSuccess returns an error unless the response is a success.
func requireSuccess[A answer](a A, err error) (A, error) {
	if err == nil && a.StatusCode() >= http.StatusMultipleChoices {
		err = fmt.Errorf("the response was %d: %s", a.StatusCode(), strings.TrimSpace(string(a.GetBody())))
	}
	return a, err
}

// newUser signs up a new user.
func (p *seeder) newUser(ctx context.Context, name string) (*user, error) {
	user := &user{Email: strings.ToLower(name + "." + rand.Text()[:10] + "@example.com"), Password: rand.Text()}
	anonymous, err := p.cloud("", "")
	if err != nil {
		return nil, err
	}
	response, err := requireSuccess(anonymous.SignUpWithResponse(ctx, cloudapi.SignUpRequest{
		Email: openapi_types.Email(user.Email), Password: &user.Password, Name: name,
	}))
	if err != nil {
		return nil, fmt.Errorf("sign up: %w", err)
	}
	user.Token, user.UserID = response.JSON201.Data.Token, response.JSON201.Data.User.Id
	user.api, err = p.cloud("Authorization", "Bearer "+user.Token)
	return user, err
}

// newTenant creates an organization of a user, activates it and subscribes it to a
// plan. Its profile has the browser version.
func (p *seeder) newTenant(ctx context.Context, owner *user, name, plan string) (tenant, error) {
	var t tenant
	organization, err := requireSuccess(owner.api.CreateOrganizationWithResponse(ctx, cloudapi.CreateOrganizationRequest{Name: name}))
	if err != nil {
		return t, fmt.Errorf("create an organization: %w", err)
	}
	t.OrganizationID = organization.JSON201.Data.Id
	if _, err := requireSuccess(owner.api.ActivateOrganizationWithResponse(ctx, t.OrganizationID)); err != nil {
		return t, fmt.Errorf("activate it: %w", err)
	}
	if plan != "free" {
		if _, err := requireSuccess(owner.api.StartCheckoutWithResponse(ctx, cloudapi.CheckoutRequest{Plan: plan})); err != nil {
			return t, fmt.Errorf("subscribe to a plan: %w", err)
		}
	}
	t.OrganizationKey, _, err = p.newKey(ctx, owner, t.OrganizationID)
	return t, err
}

func (p *seeder) newKey(ctx context.Context, owner *user, organization uuid.UUID) (key string, id uuid.UUID, err error) {
	response, err := requireSuccess(owner.api.CreateApiKeyWithResponse(ctx, organization, cloudapi.CreateApiKeyRequest{Name: "fleet"}))
	if err != nil {
		return "", id, fmt.Errorf("create a key: %w", err)
	}
	return response.JSON201.Data.Key, response.JSON201.Data.ApiKey.Id, nil
}

// newProfile creates a profile in the user's active organization.
func (p *seeder) newProfile(ctx context.Context, owner *user, browserVersion int32) (uuid.UUID, error) {
	response, err := requireSuccess(owner.api.CreateProfileWithResponse(ctx, cloudapi.CreateProfileRequest{
		Name: "Checkout", BrowserVersion: browserVersion,
	}))
	if err != nil {
		return uuid.Nil, fmt.Errorf("create a profile: %w", err)
	}
	return response.JSON201.Data.Id, nil
}

// verify verifies a user's address with the sign-up mail.
func (p *seeder) verify(ctx context.Context, user *user) error {
	token, err := p.mail.token(ctx, user.Email, verifyPage)
	if err != nil {
		return err
	}
	_, err = requireSuccess(user.api.VerifyEmailWithResponse(ctx, cloudapi.VerifyEmailRequest{Token: &token}))
	return err
}

// invite invites a user and returns the token of the mail.
func (p *seeder) invite(ctx context.Context, owner *user, organization uuid.UUID, guest *user, role string) (string, error) {
	if _, err := requireSuccess(owner.api.InviteMemberWithResponse(ctx, organization, cloudapi.InviteMemberRequest{
		Email: openapi_types.Email(guest.Email), Role: cloudapi.Role(role),
	})); err != nil {
		return "", fmt.Errorf("send an invitation: %w", err)
	}
	return p.mail.token(ctx, guest.Email, invitePage)
}

// newMember adds a user to an organization as a member.
func (p *seeder) newMember(ctx context.Context, owner *user, organization uuid.UUID, role string) (*user, error) {
	guest, err := p.newUser(ctx, role)
	if err != nil {
		return nil, err
	}
	if err := p.verify(ctx, guest); err != nil {
		return nil, err
	}
	token, err := p.invite(ctx, owner, organization, guest, role)
	if err != nil {
		return nil, err
	}
	if _, err := requireSuccess(guest.api.AcceptInvitationWithResponse(ctx, cloudapi.AcceptInvitationRequest{Token: &token})); err != nil {
		return nil, fmt.Errorf("accept an invitation: %w", err)
	}
	_, err = requireSuccess(guest.api.ActivateOrganizationWithResponse(ctx, organization))
	return guest, err
}

// newSession reports a running session, as a worker of the organization would.
func (p *seeder) newSession(ctx context.Context, tenant tenant, browserVersion int32) (cloudapi.StartSessionRequest, error) {
	report := cloudapi.StartSessionRequest{
		MachineId: "worker-" + strings.ToLower(rand.Text()[:8]), BootId: uuid.New(), SessionId: uuid.New(),
		LaunchId: uuid.New(), Seq: 1, BrowserVersion: browserVersion, StartedAt: time.Now().UTC(),
	}
	slot, err := p.newSlot(ctx, tenant, report)
	if err != nil {
		return report, err
	}
	report.SlotId = &slot
	license, err := p.cloud("X-API-Key", tenant.OrganizationKey)
	if err != nil {
		return report, err
	}
	_, err = requireSuccess(license.StartProfileSessionWithResponse(ctx, tenant.ProfileID, report))
	return report, err
}

// newSlot reserves a slot for a session that is reported later.
func (p *seeder) newSlot(ctx context.Context, tenant tenant, report cloudapi.StartSessionRequest) (uuid.UUID, error) {
	license, err := p.cloud("X-API-Key", tenant.OrganizationKey)
	if err != nil {
		return uuid.Nil, err
	}
	granted, err := requireSuccess(license.AuthorizeLaunchWithResponse(ctx, cloudapi.AuthorizeRequest{
		MachineId: report.MachineId, BootId: report.BootId, SessionId: report.SessionId, ProfileId: &tenant.ProfileID,
	}))
	if err != nil {
		return uuid.Nil, fmt.Errorf("authorize a launch: %w", err)
	}
	return *granted.JSON200.Data.SlotId, nil
}
