package cloud

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
)

// UseSecret returns the value of a field of a secret, named by its id or its name, for a
// document of an origin in a running session that is charged to a key (POST
// /v1/secrets/{secretId}/use). Errors: Validation, Forbidden with details, NotFound, Conflict,
// and those of the key and the cloud.
func (c *Client) UseSecret(ctx context.Context, key session.OrganizationKey, sessionID uuid.UUID, secret, field, origin string) (secretID uuid.UUID, value string, err error) {
	ctx, cancel := c.callContext(ctx, "useSecret", 0)
	defer cancel()
	if err := c.checkCompatible(ctx); err != nil {
		return uuid.Nil, "", err
	}
	credential := c.credential(key)
	if credential.key.IsZero() {
		return uuid.Nil, "", errNoKey()
	}
	answer, err := c.api.UseSecretWithResponse(ctx, secret, cloudapi.UseSecretRequest{
		SessionId: sessionID, Field: cloudapi.SecretField(field), Origin: origin,
	}, credential.sign)
	switch {
	case err != nil:
		return uuid.Nil, "", callFault(err)
	case answer.JSON200 != nil && bool(answer.JSON200.Success):
		return answer.JSON200.Data.SecretId, answer.JSON200.Data.Value, nil
	case answer.JSON403 != nil: // about the secret, not the key
		refused := answer.JSON403.Error
		return uuid.Nil, "", fault.Wrap(fmt.Errorf("the cloud answered 403 %s", refused.Code), fault.Forbidden, refused.Message, details(refused)...)
	}
	return uuid.Nil, "", credential.answerFault(answer.HTTPResponse, answer.Body)
}
