package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// recordingTimeout bounds the end of a recording.
const recordingTimeout = 30 * time.Second

// recordingSetup is a setup with an ended session that was recorded.
func (p *exampleRunner) recordingSetup(ctx context.Context) (s exampleSetup, err error) {
	if p.recorded == "" {
		p.recorded, err = p.recordSession(ctx)
	}
	return exampleSetup{path: map[string]string{"sessionId": p.recorded, "file": "index.html"}}, err
}

// scriptSetup is a recordingSetup for a script.
func (p *exampleRunner) scriptSetup(ctx context.Context) (exampleSetup, error) {
	s, err := p.recordingSetup(ctx)
	s.query = map[string]string{"language": string(workerapi.PlaywrightTs)}
	return s, err
}

// recordSession returns the id of a new session, after its recording.
func (p *exampleRunner) recordSession(ctx context.Context) (string, error) {
	worker, err := p.worker(p.seed.WorkerKey)
	if err != nil {
		return "", err
	}
	response, err := requireSuccess(worker.LaunchProfileWithResponse(ctx, workerapi.LaunchProfileRequest{
		ProfileId: &p.seed.ProfileID, Browser: &workerapi.BrowserSettings{
			Record: &sharedapi.RecordedParts{"video", "events", "frames", "har", "trace"}, StartUrls: &[]string{"about:blank"},
		},
	}))
	if err != nil {
		return "", err
	}
	id := response.JSON201.Data.Id
	for end := time.Now().Add(recordingTimeout); time.Now().Before(end); time.Sleep(time.Second) { // for a picture
		now, err := requireSuccess(worker.GetBrowserSessionWithResponse(ctx, id))
		if err != nil {
			return "", err
		}
		if recording := now.JSON200.Data.Recording; recording != nil && recording.State != workerapi.RecordingStateRecording {
			return id.String(), nil
		}
		if time.Until(end) > recordingTimeout-2*time.Second {
			continue
		}
		if _, err := requireSuccess(worker.KillBrowserSessionWithResponse(ctx, id)); err != nil {
			return "", err
		}
	}
	return "", errors.New("the recording does not end")
}

// unrecordedSetup is a setup with another browser, which ends after the example: a session has one recording.
func (p *exampleRunner) unrecordedSetup(ctx context.Context) (exampleSetup, error) {
	l, err := p.newLaunch(ctx, true)
	if err != nil {
		return exampleSetup{}, err
	}
	return exampleSetup{path: map[string]string{"launchId": l.id}, header: map[string]string{"X-Svc-Token": l.token}, after: p.endOthers}, nil
}

// recordedSetup is an unrecordedSetup whose browser is recorded.
func (p *exampleRunner) recordedSetup(ctx context.Context) (exampleSetup, error) {
	s, err := p.unrecordedSetup(ctx)
	if err != nil {
		return exampleSetup{}, err
	}
	l := &launched{id: s.path["launchId"], token: s.header["X-Svc-Token"]}
	status, _, err := p.callBrowser(ctx, l, http.MethodPost, "/recording", `{"record":["events"]}`)
	if err != nil {
		return exampleSetup{}, err
	}
	if status != http.StatusCreated {
		return exampleSetup{}, fmt.Errorf("start a recording: %d", status)
	}
	return s, nil
}
