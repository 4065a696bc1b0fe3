package main

import (
	"context"
	"errors"
	"time"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// recordingTimeout bounds the end of a recording.
const recordingTimeout = 30 * time.Second

// recordingSetup is a setup with an ended session that was recorded.
func (p *exampleRunner) recordingSetup(ctx context.Context) (exampleSetup, error) {
	worker, err := p.worker(p.seed.WorkerKey)
	if err != nil {
		return exampleSetup{}, err
	}
	made, err := requireSuccess(worker.LaunchProfileWithResponse(ctx, workerapi.LaunchProfileRequest{
		ProfileId: &p.seed.ProfileID, Browser: &workerapi.BrowserSettings{
			Record: &sharedapi.RecordedParts{"video", "events", "frames"}, StartUrls: &[]string{"about:blank"},
		},
	}))
	if err != nil {
		return exampleSetup{}, err
	}
	id := made.JSON201.Data.Id
	for end := time.Now().Add(recordingTimeout); time.Now().Before(end); time.Sleep(time.Second) { // for a picture
		now, err := requireSuccess(worker.GetBrowserSessionWithResponse(ctx, id))
		if err != nil {
			return exampleSetup{}, err
		}
		if of := now.JSON200.Data.Recording; of != nil && of.State != workerapi.RecordingStateRecording {
			return exampleSetup{path: map[string]string{"sessionId": id.String()}}, nil
		}
		if time.Until(end) > recordingTimeout-2*time.Second {
			continue
		}
		if _, err := requireSuccess(worker.KillBrowserSessionWithResponse(ctx, id)); err != nil {
			return exampleSetup{}, err
		}
	}
	return exampleSetup{}, errors.New("the recording does not end")
}
