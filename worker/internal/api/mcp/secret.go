package mcp

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/data/secretfill"
)

// filledValue replaces the value of a field that was filled with a secret.
const filledValue = "(filled with a secret)"

type secretInput struct {
	onElement
	Secret string `json:"secret" jsonschema:"name or id of the secret, which the user tells"`
	Field  string `json:"field" jsonschema:"username, password, or totp for the current code"`
}

func (s *Service) addSecretTool(server *sdk.Server) {
	addPageTool(s, server, "fill_secret", "Fill a field of the latest snapshot with a user name, password or one-time code that the user has stored as a secret. "+
		"You do not get the value. It works only on the sites that the secret allows.", func(ctx context.Context, p pageCall, input secretInput) (result, error) {
		return p.fillSecret(ctx, input)
	})
}

func (p pageCall) fillSecret(ctx context.Context, input secretInput) (result, error) {
	launch, err := p.access()
	if err != nil {
		return result{}, err
	}
	answer, err := p.act(ctx, input.Ref, false, func(e element) error {
		_, err := p.service.Pages.FillSecret(ctx, launch, p.target(e), secretfill.Request{Secret: input.Secret, Field: input.Field, BackendNodeID: e.node})
		if fault.Is(err, fault.Forbidden) { // not because of the key
			return toolError(textOf(fault.From(err)))
		}
		return err
	})
	if err == nil {
		answer.note = joinLines(fmt.Sprintf("The field %s is filled.", input.Ref), answer.note)
	}
	return answer, err
}

// target returns the target of the document of an element: the tab, or a frame of another
// site.
func (p pageCall) target(e element) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.tab.frames {
		if f.session == e.session {
			return f.frame
		}
	}
	return p.tab.target
}
