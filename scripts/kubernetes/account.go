package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// prepareAccount gives the first organization, which the bootstrap Job creates, a plan without a limit of profiles, and
// reads the key of the clients.
func (p *proof) prepareAccount(ctx context.Context) error {
	if _, err := p.kubectl(ctx, "wait", "job/svc-bootstrap-1", "--for=condition=Complete", "--timeout=5m"); err != nil {
		return err
	}
	text, err := p.kubectl(ctx, "exec", "deployment/svc-cloud", "--", "svc-cloud", "organizations", "list", "--json")
	if err != nil {
		return err
	}
	var organizations []struct{ ID string }
	if err := json.Unmarshal([]byte(text), &organizations); err != nil {
		return fmt.Errorf("the organizations are %q: %w", text, err)
	}
	if len(organizations) != 1 {
		return fmt.Errorf("the bootstrap created %d organizations", len(organizations))
	}
	if _, err := p.kubectl(ctx, "exec", "deployment/svc-cloud", "--", "svc-cloud", "organizations", "plan", organizations[0].ID, "team"); err != nil {
		return err
	}
	encoded, err := p.kubectl(ctx, "get", "secret", "keys", "-o", "jsonpath={.data.API_KEY}")
	if err != nil {
		return err
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	p.fleet.key = string(key)
	return err
}
