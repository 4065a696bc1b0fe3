package cloudtest

import (
	"context"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/fault"
)

// Secret is a secret of the organization. Without a value, it does not have the field.
type Secret struct {
	ID     uuid.UUID
	Origin string // the only one that it allows
	Values map[cloudapi.SecretField]string
}

// AddSecret adds a secret, or replaces the one with this name.
func (c *Cloud) AddSecret(name string, s Secret) { c.set(func() { c.secrets[name] = s }) }

// UseSecret answers with a value, as the cloud does.
func (c *Cloud) UseSecret(ctx context.Context, r cloudapi.UseSecretRequestObject) (cloudapi.UseSecretResponseObject, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record(ctx, Call{Operation: UseSecret, SessionID: r.Body.SessionId, UseSecret: r.Body})
	found, ok := c.secrets[r.SecretId]
	for _, s := range c.secrets {
		if s.ID.String() == r.SecretId {
			found, ok = s, true
		}
	}
	value, has := found.Values[r.Body.Field]
	switch reservation := c.slots[r.Body.SessionId]; {
	case !ok:
		return nil, fault.Missing("secret")
	case reservation == nil || !reservation.running:
		return nil, fault.New(fault.Conflict, "The session is not running.")
	case r.Body.Origin != found.Origin:
		return nil, fault.New(fault.Forbidden, "The secret may not be used here.", fault.Detail{Field: "origin", Code: fault.Custom, Message: "is not allowed by the secret"})
	case !has:
		return nil, fault.Field("field", "is not stored in the secret")
	}
	return cloudapi.UseSecret200JSONResponse{Success: true, Data: cloudapi.UsedSecret{SecretId: found.ID, Field: r.Body.Field, Value: value}}, nil
}
