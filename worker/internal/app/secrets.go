package app

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/cloud"
	"github.com/browser-svc/svc/worker/internal/data/audit"
	"github.com/browser-svc/svc/worker/internal/data/secretfill"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// launchSecrets asks the cloud for the secrets of the organization that a launch is charged
// to. It implements devtools.Secrets.
type launchSecrets struct {
	launches *launch.Service
	cloud    *cloud.Client
}

// Use implements devtools.Secrets.
func (s launchSecrets) Use(ctx context.Context, launchID, secret, field, origin string) (secretID uuid.UUID, value string, err error) {
	id, err := uuid.Parse(launchID)
	if err != nil {
		return uuid.Nil, "", err
	}
	found, ok := s.launches.Running(id)
	if !ok {
		return uuid.Nil, "", access.ErrUnknownBrowser
	}
	secretID, value, err = s.cloud.UseSecret(ctx, found.Session.OrganizationKey, found.Session.ID, secret, field, origin)
	if err == nil {
		found.Actions.Add(time.Now(), audit.Secret{SecretID: secretID, Field: field, Origin: origin})
	}
	return secretID, value, err
}

// fillFunc is browser.Options.FillSecret.
type fillFunc = func(ctx context.Context, launchID, targetID string, params json.RawMessage) (result any, err error)

// fillSecret handles a Svc.fillSecret.
func (w *worker) fillSecret(ctx context.Context, launchID, targetID string, params json.RawMessage) (any, error) {
	var request secretfill.Request
	strict := json.NewDecoder(bytes.NewReader(params))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&request); err != nil {
		return nil, fault.Field("params", "must be {secret, field, selector} or {secret, field, backendNodeId}: texts, and the node as an integer")
	}
	running, ok := browserFinder{w.launches}.Find(launchID)
	if !ok {
		return nil, access.ErrUnknownBrowser
	}
	return w.relay.FillSecret(ctx, running, targetID, request)
}
