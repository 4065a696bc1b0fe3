package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// handoverSetups are the setups of the operations of handovers. Each operation ends
// without an open handover.
func (p *exampleRunner) handoverSetups() map[string]func(context.Context) (exampleSetup, error) {
	open := func(ctx context.Context) (exampleSetup, error) {
		if err := p.handover(ctx, http.MethodPost, `{"reason":"Solve the captcha."}`, http.StatusCreated); err != nil {
			return exampleSetup{}, err
		}
		return exampleSetup{after: p.cancelHandover}, nil
	}
	return map[string]func(context.Context) (exampleSetup, error){
		"startHandover": func(ctx context.Context) (exampleSetup, error) {
			_, err := p.sessionSetup(ctx)
			return exampleSetup{after: p.cancelHandover}, err
		},
		"getHandover": open, "cancelHandover": open, "completeHandover": open,
	}
}

// cancelHandover cancels the handover of the launch if one is open.
func (p *exampleRunner) cancelHandover(ctx context.Context) error {
	return p.handover(ctx, http.MethodDelete, "", http.StatusOK, http.StatusConflict)
}

// handover sends a request about the handover of the launch.
func (p *exampleRunner) handover(ctx context.Context, method, body string, allowed ...int) error {
	if _, err := p.sessionSetup(ctx); err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, p.workerURL+"/browsers/"+p.launch.id+"/handover", strings.NewReader(body))
	if err != nil {
		return err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := withHeader("X-Svc-Token", p.launch.token).Do(r)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	for _, status := range allowed {
		if response.StatusCode == status {
			return nil
		}
	}
	return fmt.Errorf("%s handover: %s", method, response.Status)
}
