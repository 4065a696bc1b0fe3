package rest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser"
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
		Engine:      browser.Engine(valueOr(options.Engine, "")),
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
func (s *Server) sessionToAPI(of session.Session) (workerapi.BrowserSession, error) {
	data := workerapi.BrowserSession{
		Id: of.ID, Status: sharedapi.SessionStatus(of.Status), StartedAt: of.StartedAt, LaunchId: of.LaunchID,
		ProfileId: of.ProfileID, ProfileName: of.ProfileName, BrowserVersion: int32(of.BrowserVersion),
		Engine: workerapi.BrowserEngine(of.Engine), Headless: of.Headless, ProxyTraffic: s.traffic(of), Metadata: sharedapi.Metadata{},
		Bundle:   chosenBundle(of.Bundle),
		Start:    workerapi.BrowserStart{Warm: of.Start.Warm, ColdReasons: append([]string{}, of.Start.ColdReasons...)},
		Timeline: timeline(of.Timeline), Recording: s.RecordingOf(of), Name: nonZero(of.Name),
	}
	for name, text := range of.Metadata {
		data.Metadata[name] = text
	}
	if of.Status != session.Running {
		endedAt, reason := of.EndedAt, sharedapi.EndReasonOrNull(of.EndReason)
		data.EndedAt, data.EndReason = &endedAt, &reason
		if of.ExitCode != nil {
			code := int32(*of.ExitCode)
			data.ExitCode = &code
		}
		data.DataSaved, data.DataNotSavedReason = savedData(of.SaveResult)
		return data, nil
	}
	links, err := s.Links.ForLaunch(of.LaunchID.String(), of.DebugPath, of.DevTools)
	if err != nil {
		return workerapi.BrowserSession{}, err
	}
	if running, ok := s.Launches.Running(of.LaunchID); ok {
		data.Handover, data.Frozen = openHandover(running), &running.Frozen
		lifetime := lifetimeToAPI(of.LaunchID, running.Lifetime)
		data.ExpiresAt, data.ExpiresReason, data.IdleTimeoutSeconds = lifetime.ExpiresAt, lifetime.ExpiresReason, lifetime.IdleTimeoutSeconds
		data.MaxDurationSeconds, data.ConnectTimeoutSeconds = lifetime.MaxDurationSeconds, lifetime.ConnectTimeoutSeconds
	}
	port := int32(of.DebugPort)
	data.DebugPort, data.WebSocketDebuggerUrl, data.DevtoolsFrontendUrl, data.ViewUrl = &port, &links.WebSocket, nonZero(links.DevTools), &links.View
	return data, nil
}

// openHandover returns the handover for which a session needs a person; nil if none is
// open.
func openHandover(of launch.Running) *workerapi.OpenHandover {
	open := of.Handovers.Open()
	if open == nil {
		return nil
	}
	return &workerapi.OpenHandover{Reason: open.Reason, Since: open.Since, Until: open.Until}
}

func chosenBundle(of session.Bundle) *workerapi.ChosenBundle {
	if of == (session.Bundle{}) {
		return nil
	}
	return &workerapi.ChosenBundle{Filename: of.Filename, Name: of.Name}
}

// savedData returns whether the data of the profile was saved and, if not, why. Both
// are nil for a profile that keeps no data.
func savedData(of *session.SaveResult) (saved *bool, reason *workerapi.DataNotSavedReason) {
	if of == nil {
		return nil, nil
	}
	if !of.Saved {
		reason = new(workerapi.DataNotSavedReason(of.Reason))
	}
	return &of.Saved, reason
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
func (s *Server) traffic(of session.Session) *workerapi.ProxyTraffic {
	if received, sent, ok := s.Launches.Traffic(of.ID); ok {
		return &workerapi.ProxyTraffic{ReceivedBytes: received, SentBytes: sent}
	}
	return nil
}
