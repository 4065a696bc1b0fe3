package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// createKeys creates a first account over the edge and the Secret keys with its organization key, which the workers wait
// for.
func (p *proof) createKeys(ctx context.Context) error {
	token, err := p.post(ctx, "", "/v1/auth/sign-up", map[string]any{"email": "you@example.com", "password": rand.Text(), "name": "You"}, "token")
	if err != nil {
		return err
	}
	organization, err := p.post(ctx, token, "/v1/organizations", map[string]any{"name": "First organization"}, "id")
	if err != nil {
		return err
	}
	key, err := p.post(ctx, token, "/v1/organizations/"+organization+"/api-keys", map[string]any{"name": "workers"}, "key")
	if err != nil {
		return err
	}
	if _, err := p.kubectl(ctx, "exec", "deployment/svc-cloud", "--", "svc-cloud", "organizations", "plan", organization, "team"); err != nil {
		return err
	}
	p.fleet.key = "wrk_" + rand.Text()
	_, err = p.kubectl(ctx, "create", "secret", "generic", "keys", "--from-literal=SVC_KEY="+key, "--from-literal=API_KEY="+p.fleet.key)
	return err
}

// post sends a request to the cloud behind the edge and returns a member of the response.
func (p *proof) post(ctx context.Context, token, path string, body any, member string) (string, error) {
	content, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, edgeURL+path, bytes.NewReader(content))
	if err != nil {
		return "", err
	}
	request.Host = cloudHost
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := p.fleet.client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	var answer struct{ Data map[string]any }
	if response.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("POST %s returned %d: %s", path, response.StatusCode, text)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return "", err
	}
	value, _ := answer.Data[member].(string)
	return value, nil
}
