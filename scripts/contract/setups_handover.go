package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

const questionTimeout = 20 * time.Second

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
		"listHandoverQuestions": p.questionSetup, "answerHandoverQuestion": p.questionSetup,
	}
}

// questionSetup is a setup with another browser, whose start page waits for a person. It ends after the example.
func (p *exampleRunner) questionSetup(ctx context.Context) (exampleSetup, error) {
	l, err := p.launchWith(ctx, workerapi.BrowserSettings{
		StartUrls: &sharedapi.StartUrls{"http://bank.example/"},
		Network:   &sharedapi.StoredNetworkRules{Navigate: &sharedapi.NavigationFilter{Ask: &sharedapi.WebPatterns{"bank.example"}}},
	})
	if err != nil {
		return exampleSetup{}, err
	}
	s := exampleSetup{path: map[string]string{"launchId": l.id}, header: map[string]string{"X-Svc-Token": l.token}, after: p.endOthers}
	for end := time.Now().Add(questionTimeout); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var listed workerapi.HandoverQuestionListResponse
		if err := p.listQuestions(ctx, l, &listed); err != nil {
			return exampleSetup{}, err
		}
		if items := listed.Data.Items; len(items) > 0 {
			s.path["questionId"] = items[0].Id.String()
			return s, nil
		}
	}
	return exampleSetup{}, errors.New("no document waits for a person")
}

func (p *exampleRunner) listQuestions(ctx context.Context, l *launched, listed any) error {
	status, answer, err := p.callBrowser(ctx, l, http.MethodGet, "/handover/questions", "")
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("list questions: %d", status)
	}
	return json.Unmarshal(answer, listed)
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
	status, _, err := p.callBrowser(ctx, p.launch, method, "/handover", body)
	if err != nil {
		return err
	}
	if slices.Contains(allowed, status) {
		return nil
	}
	return fmt.Errorf("%s handover: %d", method, status)
}
