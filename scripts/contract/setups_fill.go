package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// fillSetup is a setup with another browser, which shows a password input of an origin that a new
// secret allows. It ends after the example.
func (p *exampleRunner) fillSetup(ctx context.Context) (exampleSetup, error) {
	if err := p.activateSeeded(ctx); err != nil {
		return exampleSetup{}, err
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "<!doctype html><title>Sign in</title><input type=password>")
	}))
	end := func(ctx context.Context) error {
		site.Close()
		return p.endOthers(ctx)
	}
	secret, err := requireSuccess(p.seed.Owner.api.CreateSecretWithResponse(ctx, cloudapi.CreateSecretRequest{
		Name: newSecretName(), Origins: []string{site.URL}, Password: new("correct horse"),
	}))
	if err != nil {
		return exampleSetup{after: end}, err
	}
	l, err := p.launchWith(ctx, workerapi.BrowserSettings{})
	if err != nil {
		return exampleSetup{after: end}, err
	}
	return exampleSetup{
		path: map[string]string{"launchId": l.id}, header: map[string]string{"X-Svc-Token": l.token}, after: end,
		body: map[string]any{"secret": secret.JSON201.Data.Name, "targetId": l.target},
	}, p.navigate(ctx, l, site.URL)
}

// navigate opens a document in the tab of a launch, and waits until it has loaded.
func (p *exampleRunner) navigate(ctx context.Context, l *launched, address string) error {
	body, err := json.Marshal(workerapi.NavigateRequest{Url: address, TargetId: &l.target})
	if err != nil {
		return err
	}
	status, _, err := p.callBrowser(ctx, l, http.MethodPost, "/navigate", string(body))
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("open %s: %d", address, status)
	}
	return err
}
