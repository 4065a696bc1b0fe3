package rest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/bundle"
	"github.com/browser-svc/svc/worker/internal/data/storagestate"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

func valueOr[T any](p *T, byDefault T) T {
	if p == nil {
		return byDefault
	}
	return *p
}

// LaunchRequest converts the body of a launch request, which was validated against
// the API document.
func LaunchRequest(body workerapi.LaunchProfileRequest) (request launch.Request, err error) {
	options := valueOr(body.Browser, workerapi.BrowserSettings{})
	request = launch.Request{
		ProfileID:   body.ProfileId,
		Name:        valueOr(options.Name, ""),
		Headless:    valueOr(options.Headless, true),
		Engine:      builds.Engine(valueOr(options.Engine, "")),
		Extensions:  valueOr(options.Extensions, nil),
		Timeout:     time.Duration(valueOr(options.TimeoutMs, int32(browser.DefaultTimeout.Milliseconds()))) * time.Millisecond,
		KeepAlive:   valueOr(options.KeepAlive, false),
		ReadOnly:    valueOr(options.ReadOnly, false),
		KeepFiles:   valueOr(options.KeepFiles, false),
		CollectLogs: valueOr(options.Logs, false),
		Wait:        time.Duration(valueOr(body.WaitSeconds, 0)) * time.Second,
	}
	if options.State != nil {
		if request.State, err = settings.Convert[*storagestate.State](options.State); err != nil {
			return launch.Request{}, err
		}
		options.State = nil // it can be large
	}
	if r := options.Replay; r != nil {
		request.Replay = &launch.Replay{HAR: r.Har, Strict: valueOr(r.Mode, workerapi.ReplayModeStrict) == workerapi.ReplayModeStrict}
	}
	if request.Override, err = settings.Convert[launch.Settings](options); err != nil {
		return launch.Request{}, err
	}
	if body.Spec != nil {
		request.Spec = &launch.Spec{BrowserVersion: int(valueOr(body.Spec.BrowserVersion, 0)), Filename: valueOr(body.Spec.Filename, ""), Body: body.Spec}
		if request.Spec.Criteria, err = settings.Convert[bundle.Criteria](body.Spec); err != nil {
			return launch.Request{}, err
		}
	}
	var proxy *sharedapi.ProxySettings
	if len(body.ProxyOverride) > 0 {
		if err := json.Unmarshal(body.ProxyOverride, &proxy); err != nil {
			return launch.Request{}, fmt.Errorf("decode proxyOverride: %w", err)
		}
		request.Direct = proxy == nil
	}
	if proxy != nil {
		request.Override.Proxy = &settings.Proxy{
			Server: proxy.Server, Bypass: valueOr(proxy.Bypass, ""), Username: valueOr(proxy.Username, ""), Password: valueOr(proxy.Password, ""),
		}
	}
	return request, nil
}

// sessionToAPI converts a session. Only a running session has URLs.
func (s *Server) sessionToAPI(source session.Session) (workerapi.BrowserSession, error) {
	data := workerapi.BrowserSession{
		Id: source.ID, Status: sharedapi.SessionStatus(source.Status), StartedAt: source.StartedAt, LaunchId: source.LaunchID,
		ProfileId: source.ProfileID, ProfileName: source.ProfileName, BrowserVersion: int32(source.BrowserVersion),
		Engine: workerapi.BrowserEngine(source.Engine), Headless: source.Headless, ProxyTraffic: s.traffic(source), Metadata: sharedapi.Metadata{},
		Bundle:   chosenBundle(source.Bundle),
		Start:    workerapi.BrowserStart{Warm: source.Start.Warm, ColdReasons: append([]string{}, source.Start.ColdReasons...)},
		Timeline: timeline(source.Timeline), Recording: s.RecordingOf(source), Name: nonZero(source.Name),
	}
	for name, text := range source.Metadata {
		data.Metadata[name] = text
	}
	if source.Status != session.Running {
		endedAt, reason := source.EndedAt, sharedapi.SessionEndReason(source.EndReason)
		data.EndedAt, data.EndReason = &endedAt, &reason
		if source.ExitCode != nil {
			code := int32(*source.ExitCode)
			data.ExitCode = &code
		}
		data.DataSaved, data.DataNotSavedReason = savedData(source.SaveResult)
		return data, nil
	}
	links, err := s.Links.ForLaunch(source.LaunchID.String(), source.DebugPath, source.DevTools)
	if err != nil {
		return workerapi.BrowserSession{}, err
	}
	if running, ok := s.Launches.Running(source.LaunchID); ok {
		data.Handover, data.Questions, data.Frozen = openHandover(running), openQuestions(running), &running.Frozen
		lifetime := lifetimeToAPI(source.LaunchID, running.Lifetime)
		data.ExpiresAt, data.ExpiresReason, data.IdleTimeoutSeconds = lifetime.ExpiresAt, lifetime.ExpiresReason, lifetime.IdleTimeoutSeconds
		data.MaxDurationSeconds, data.ConnectTimeoutSeconds = lifetime.MaxDurationSeconds, lifetime.ConnectTimeoutSeconds
	}
	port := int32(source.DebugPort)
	data.DebugPort, data.WebSocketDebuggerUrl, data.DevtoolsFrontendUrl, data.ViewUrl = &port, &links.WebSocket, nonZero(links.DevTools), &links.View
	return data, nil
}

// openHandover returns the handover for which a session needs a person; nil if none is
// open.
func openHandover(running launch.Running) *workerapi.OpenHandover {
	open := running.Handovers.Open()
	if open == nil {
		return nil
	}
	return &workerapi.OpenHandover{Reason: open.Reason, Since: open.Since, Until: open.Until}
}

// openQuestions returns the documents that wait for a person; nil if there are none.
func openQuestions(running launch.Running) *[]workerapi.HandoverQuestion {
	var items []workerapi.HandoverQuestion
	for _, q := range running.Handovers.Questions() {
		items = append(items, workerapi.HandoverQuestion{Id: q.ID, Url: q.URL, Origin: q.Origin, Rule: q.Rule, Since: q.Since, Until: q.Until})
	}
	if items == nil {
		return nil
	}
	return &items
}

func chosenBundle(bundle session.Bundle) *workerapi.ChosenBundle {
	if bundle == (session.Bundle{}) {
		return nil
	}
	return &workerapi.ChosenBundle{Filename: bundle.Filename, Name: bundle.Name}
}

// savedData returns whether the data of the profile was saved and, if not, why. Both
// are nil for a profile that keeps no data.
func savedData(result *session.SaveResult) (saved *bool, reason *workerapi.DataNotSavedReason) {
	if result == nil {
		return nil, nil
	}
	if !result.Saved {
		reason = new(workerapi.DataNotSavedReason(result.Reason))
	}
	return &result.Saved, reason
}

func timeline(steps []session.Step) []workerapi.TimelineStep {
	list := []workerapi.TimelineStep{}
	for _, step := range steps {
		after := float64(step.At.Sub(steps[0].At).Microseconds()) / 1000
		list = append(list, workerapi.TimelineStep{Step: workerapi.TimelineStepName(step.Name), At: step.At, AfterMs: max(after, 0)})
	}
	return list
}

// traffic returns the bytes that passed a session's proxy; nil without a proxy.
func (s *Server) traffic(session session.Session) *workerapi.ProxyTraffic {
	if received, sent, ok := s.Launches.Traffic(session.ID); ok {
		return &workerapi.ProxyTraffic{ReceivedBytes: received, SentBytes: sent}
	}
	return nil
}
