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

// scenes say what the examples of an operation are played with, where the seeded
// organization and profile are not enough. What an example uses up is made for
// it, so that their order does not matter.
func (p *player) scenes() map[string]func(context.Context) (scene, error) {
	all := map[string]func(context.Context) (scene, error){}
	for _, part := range []map[string]func(context.Context) (scene, error){p.accountScenes(), p.organizationScenes(), p.licenseScenes(), p.workerScenes()} {
		maps.Copy(all, part)
	}
	return all
}

func (p *player) accountScenes() map[string]func(context.Context) (scene, error) {
	mailed := func(page string, ask func(context.Context, *person) error) func(context.Context) (scene, error) {
		return func(ctx context.Context) (scene, error) {
			one, err := p.newPerson(ctx, "Ada")
			if err != nil {
				return scene{}, err
			}
			if err := ask(ctx, one); err != nil {
				return scene{}, err
			}
			token, err := p.mail.token(ctx, one.Email, page)
			return scene{body: map[string]any{"token": token}}, err
		}
	}
	return map[string]func(context.Context) (scene, error){
		"signUp": func(context.Context) (scene, error) {
			return scene{body: map[string]any{"email": strings.ToLower(rand.Text()) + "@example.com"}}, nil
		},
		"signIn": func(context.Context) (scene, error) {
			return scene{body: map[string]any{"email": p.seed.Owner.Email, "password": p.seed.Owner.Password}}, nil
		},
		"signOut":               p.asSomebody,
		"signOutEverywhere":     p.asSomebody,
		"sendVerificationEmail": p.asSomebody,
		"changePassword": func(ctx context.Context) (scene, error) {
			one, err := p.newPerson(ctx, "Ada")
			if err != nil {
				return scene{}, err
			}
			return scene{header: bearer(one), body: map[string]any{"currentPassword": one.Password}}, nil
		},
		"verifyEmail":   mailed(verifyPage, func(context.Context, *person) error { return nil }),
		"resetPassword": mailed(resetPage, p.forget),
		"endAuthSession": func(ctx context.Context) (scene, error) {
			id, one, err := p.secondSession(ctx)
			return scene{header: bearer(one), path: map[string]string{"sessionId": id}}, err
		},
	}
}

// asSomebody is a scene with a user who has no more than an account.
func (p *player) asSomebody(ctx context.Context) (scene, error) {
	one, err := p.newPerson(ctx, "Ada")
	if err != nil {
		return scene{}, err
	}
	return scene{header: bearer(one)}, nil
}

func (p *player) forget(ctx context.Context, one *person) error {
	_, err := success(one.api.RequestPasswordResetWithResponse(ctx, cloudapi.ForgotPasswordRequest{Email: openapi_types.Email(one.Email)}))
	return err
}

// secondSession signs a new user in once more, and names one of the sessions.
func (p *player) secondSession(ctx context.Context) (id string, one *person, err error) {
	if one, err = p.newPerson(ctx, "Ada"); err != nil {
		return "", one, err
	}
	if _, err := success(one.api.SignInWithResponse(ctx, cloudapi.SignInRequest{Email: openapi_types.Email(one.Email), Password: &one.Password})); err != nil {
		return "", one, err
	}
	listed, err := success(one.api.ListAuthSessionsWithResponse(ctx, &cloudapi.ListAuthSessionsParams{}))
	if err != nil {
		return "", one, err
	}
	return listed.JSON200.Data.Items[0].Id.String(), one, nil
}

// licenseScenes are those of what workers report.
func (p *player) licenseScenes() map[string]func(context.Context) (scene, error) {
	release := map[string]string{"os": "linux", "arch": "x86_64"}
	return map[string]func(context.Context) (scene, error){
		"authorizeLaunch": func(context.Context) (scene, error) {
			return scene{body: map[string]any{"profileId": p.seed.ProfileID, "sessionId": uuid.New(), "bootId": uuid.New()}}, nil
		},
		"heartbeatLicenseSessions": func(ctx context.Context) (scene, error) {
			s, err := p.newSession(ctx, p.seed.tenant, p.seed.BrowserVersion)
			return scene{body: map[string]any{"machineId": s.MachineId, "bootId": s.BootId, "sessions": []uuid.UUID{s.SessionId}}}, err
		},
		"startProfileSession": p.startScene,
		"endProfileSession": func(ctx context.Context) (scene, error) {
			s, err := p.newSession(ctx, p.seed.tenant, p.seed.BrowserVersion)
			return scene{path: map[string]string{"sessionId": s.SessionId.String()}, body: map[string]any{"endedAt": time.Now().UTC()}}, err
		},
		"getLicenseSlot": func(ctx context.Context) (scene, error) {
			s, err := p.newSession(ctx, p.seed.tenant, p.seed.BrowserVersion)
			if err != nil {
				return scene{}, err
			}
			return scene{path: map[string]string{"slotId": s.SlotId.String()}}, nil
		},
		"downloadChromiumRelease":   func(context.Context) (scene, error) { return scene{query: release}, nil },
		"getChromiumReleaseHeaders": func(context.Context) (scene, error) { return scene{query: release}, nil },
	}
}

func (p *player) startScene(ctx context.Context) (scene, error) {
	report := cloudapi.StartSessionRequest{MachineId: "worker-1", BootId: uuid.New(), SessionId: uuid.New()}
	slot, err := p.newSlot(ctx, p.seed.tenant, report)
	return scene{body: map[string]any{
		"sessionId": report.SessionId, "slotId": slot, "bootId": report.BootId, "machineId": report.MachineId,
		"launchId": uuid.New(), "startedAt": time.Now().UTC(),
	}}, err
}
