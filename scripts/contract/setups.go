package main

import (
	"context"
	"crypto/rand"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"
	openapi_types "github.com/oapi-codegen/runtime/types"

	"github.com/browser-svc/svc/gen/cloudapi"
)

// setups returns the setups of operations for which the seeded organization and
// profile are not sufficient. Data that an example consumes is created for it, so
// that the order of the examples does not matter.
func (p *exampleRunner) setups() map[string]func(context.Context) (exampleSetup, error) {
	all := map[string]func(context.Context) (exampleSetup, error){}
	for _, part := range []map[string]func(context.Context) (exampleSetup, error){p.accountSetups(), p.organizationSetups(), p.secretSetups(), p.webhookSetups(), p.serviceAccountSetups(), p.licenseSetups(), p.workerSetups(), p.handoverSetups()} {
		maps.Copy(all, part)
	}
	return all
}

func (p *exampleRunner) accountSetups() map[string]func(context.Context) (exampleSetup, error) {
	mailed := func(page string, ask func(context.Context, *user) error) func(context.Context) (exampleSetup, error) {
		return func(ctx context.Context) (exampleSetup, error) {
			user, err := p.newUser(ctx, "Ada")
			if err != nil {
				return exampleSetup{}, err
			}
			if err := ask(ctx, user); err != nil {
				return exampleSetup{}, err
			}
			token, err := p.mail.token(ctx, user.Email, page)
			return exampleSetup{body: map[string]any{"token": token}}, err
		}
	}
	return map[string]func(context.Context) (exampleSetup, error){
		"signUp": func(context.Context) (exampleSetup, error) {
			return exampleSetup{body: map[string]any{"email": strings.ToLower(rand.Text()) + "@example.com"}}, nil
		},
		"signIn": func(context.Context) (exampleSetup, error) {
			return exampleSetup{body: map[string]any{"email": p.seed.Owner.Email, "password": p.seed.Owner.Password}}, nil
		},
		"signInWithLink": func(ctx context.Context) (exampleSetup, error) {
			user, err := p.newUser(ctx, "Ada")
			if err != nil {
				return exampleSetup{}, err
			}
			link, err := requireSuccess(user.api.CreateSignInLinkWithResponse(ctx))
			if err != nil {
				return exampleSetup{}, err
			}
			_, token, _ := strings.Cut(link.JSON200.Data.Url, "#token=")
			return exampleSetup{body: map[string]any{"token": token}}, nil
		},
		"createSignInLink":      p.newUserSetup,
		"updateUser":            p.newUserSetup,
		"signOut":               p.newUserSetup,
		"signOutEverywhere":     p.newUserSetup,
		"revokeAccessToken":     p.accessTokenSetup,
		"sendVerificationEmail": p.newUserSetup,
		"changePassword": func(ctx context.Context) (exampleSetup, error) {
			user, err := p.newUser(ctx, "Ada")
			if err != nil {
				return exampleSetup{}, err
			}
			return exampleSetup{header: bearer(user), body: map[string]any{"currentPassword": user.Password}}, nil
		},
		"verifyEmail":   mailed(verifyPage, func(context.Context, *user) error { return nil }),
		"resetPassword": mailed(resetPage, p.requestPasswordReset),
		"endAuthSession": func(ctx context.Context) (exampleSetup, error) {
			id, user, err := p.secondSession(ctx)
			return exampleSetup{header: bearer(user), path: map[string]string{"sessionId": id}}, err
		},
	}
}

// accessTokenSetup creates an access token of the owner.
func (p *exampleRunner) accessTokenSetup(ctx context.Context) (exampleSetup, error) {
	if err := p.activateSeeded(ctx); err != nil {
		return exampleSetup{}, err
	}
	created, err := requireSuccess(p.seed.Owner.api.CreateAccessTokenWithResponse(ctx, cloudapi.CreateAccessTokenRequest{
		Name: "deployment", Scopes: cloudapi.AccessTokenScopes{cloudapi.ProfilesRead},
	}))
	if err != nil {
		return exampleSetup{}, err
	}
	return exampleSetup{path: map[string]string{"tokenId": created.JSON201.Data.AccessToken.Id.String()}}, nil
}

// newUserSetup is a setup with a new user without an organization.
func (p *exampleRunner) newUserSetup(ctx context.Context) (exampleSetup, error) {
	user, err := p.newUser(ctx, "Ada")
	if err != nil {
		return exampleSetup{}, err
	}
	return exampleSetup{header: bearer(user)}, nil
}

func (p *exampleRunner) requestPasswordReset(ctx context.Context, user *user) error {
	_, err := requireSuccess(user.api.RequestPasswordResetWithResponse(ctx, cloudapi.ForgotPasswordRequest{Email: openapi_types.Email(user.Email)}))
	return err
}

// secondSession creates a second session of a new user, and uses its id.
func (p *exampleRunner) secondSession(ctx context.Context) (id string, user *user, err error) {
	if user, err = p.newUser(ctx, "Ada"); err != nil {
		return "", user, err
	}
	if _, err := requireSuccess(user.api.SignInWithResponse(ctx, cloudapi.SignInRequest{Email: openapi_types.Email(user.Email), Password: &user.Password})); err != nil {
		return "", user, err
	}
	listed, err := requireSuccess(user.api.ListAuthSessionsWithResponse(ctx, &cloudapi.ListAuthSessionsParams{}))
	if err != nil {
		return "", user, err
	}
	return listed.JSON200.Data.Items[0].Id.String(), user, nil
}

// licenseSetups are the setups of the operations for workers.
func (p *exampleRunner) licenseSetups() map[string]func(context.Context) (exampleSetup, error) {
	release := map[string]string{"os": "linux", "arch": "x86_64"}
	return map[string]func(context.Context) (exampleSetup, error){
		"authorizeLaunch": func(context.Context) (exampleSetup, error) {
			return exampleSetup{body: map[string]any{"profileId": p.seed.ProfileID, "sessionId": uuid.New(), "bootId": uuid.New()}}, nil
		},
		"heartbeatLicenseSessions": func(ctx context.Context) (exampleSetup, error) {
			s, err := p.newSession(ctx, p.seed.tenant, p.seed.BrowserVersion)
			return exampleSetup{body: map[string]any{"machineId": s.MachineId, "bootId": s.BootId, "sessions": []uuid.UUID{s.SessionId}}}, err
		},
		"startProfileSession": p.startSetup,
		"openProfileData": func(ctx context.Context) (exampleSetup, error) {
			tenant, s, err := p.newDataSession(ctx)
			return exampleSetup{path: map[string]string{"profileId": tenant.ProfileID.String()}, body: map[string]any{"sessionId": s.SessionId, "machineId": s.MachineId}}, err
		},
		"addProfileDataVersion": func(ctx context.Context) (exampleSetup, error) {
			tenant, version, err := p.newDataVersion(ctx, false)
			return exampleSetup{path: map[string]string{"profileId": tenant.ProfileID.String()}, body: map[string]any{
				"id": version.Id, "sessionId": version.SessionId, "machineId": version.MachineId,
			}}, err
		},
		"checkDeletedProfileData": func(context.Context) (exampleSetup, error) {
			return exampleSetup{path: map[string]string{"directory": "6f1ed002ab5595859014ebf0951522d9"}}, nil
		},
		"listProfileDataVersions":    p.savedDataSetup,
		"deleteProfileDataVersion":   p.savedDataSetup,
		"activateProfileDataVersion": p.savedDataSetup,
		"endProfileSession": func(ctx context.Context) (exampleSetup, error) {
			s, err := p.newSession(ctx, p.seed.tenant, p.seed.BrowserVersion)
			return exampleSetup{path: map[string]string{"sessionId": s.SessionId.String()}, body: map[string]any{"endedAt": time.Now().UTC()}}, err
		},
		"getLicenseSlot": func(ctx context.Context) (exampleSetup, error) {
			s, err := p.newSession(ctx, p.seed.tenant, p.seed.BrowserVersion)
			if err != nil {
				return exampleSetup{}, err
			}
			return exampleSetup{path: map[string]string{"slotId": s.SlotId.String()}}, nil
		},
		"getSession": func(ctx context.Context) (exampleSetup, error) {
			s, err := p.newSession(ctx, p.seed.tenant, p.seed.BrowserVersion)
			if err != nil {
				return exampleSetup{}, err
			}
			return exampleSetup{path: map[string]string{"sessionId": s.SessionId.String()}}, nil
		},
		"updateMachine": func(ctx context.Context) (exampleSetup, error) {
			if err := p.activateSeeded(ctx); err != nil {
				return exampleSetup{}, err
			}
			s, err := p.newSession(ctx, p.seed.tenant, p.seed.BrowserVersion)
			return exampleSetup{path: map[string]string{"machineId": s.MachineId}}, err
		},
		"downloadChromiumRelease":   func(context.Context) (exampleSetup, error) { return exampleSetup{query: release}, nil },
		"getChromiumReleaseHeaders": func(context.Context) (exampleSetup, error) { return exampleSetup{query: release}, nil },
	}
}

func (p *exampleRunner) startSetup(ctx context.Context) (exampleSetup, error) {
	report := cloudapi.StartSessionRequest{MachineId: "worker-1", BootId: uuid.New(), SessionId: uuid.New()}
	slot, err := p.newSlot(ctx, p.seed.tenant, report)
	return exampleSetup{body: map[string]any{
		"sessionId": report.SessionId, "slotId": slot, "bootId": report.BootId, "machineId": report.MachineId,
		"launchId": uuid.New(), "startedAt": time.Now().UTC(),
	}}, err
}
