package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/certs"
	"github.com/browser-svc/svc/worker/internal/browser"
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
func LaunchRequest(body workerapi.LaunchProfileRequest) (launch.Request, error) {
	settings := valueOr(body.Browser, workerapi.BrowserSettings{})
	request := launch.Request{
		ProfileID:   body.ProfileId,
		Name:        valueOr(settings.Name, ""),
		Headless:    valueOr(settings.Headless, true),
		Override:    overrides(settings),
		Engine:      browser.Engine(valueOr(settings.Engine, "")),
		Extensions:  valueOr(settings.Extensions, nil),
		Timeout:     time.Duration(valueOr(settings.TimeoutMs, int32(browser.DefaultTimeout.Milliseconds()))) * time.Millisecond,
		KeepAlive:   valueOr(settings.KeepAlive, false),
		ReadOnly:    valueOr(settings.ReadOnly, false),
		KeepFiles:   valueOr(settings.KeepFiles, false),
		CollectLogs: valueOr(settings.Logs, false),
		Wait:        time.Duration(valueOr(body.WaitSeconds, 0)) * time.Second,
	}
	if body.Spec != nil {
		request.Spec = &launch.Spec{
			BrowserVersion: int(valueOr(body.Spec.BrowserVersion, 0)), Criteria: criteria(body.Spec), Body: body.Spec,
		}
	}
	if settings.State != nil {
		var err error
		if request.State, err = storageState(*settings.State); err != nil {
			return launch.Request{}, err
		}
	}
	switch override := bytes.TrimSpace(body.ProxyOverride); {
	case len(override) == 0:
	case bytes.Equal(override, []byte("null")):
		request.Direct = true
	default:
		var proxy sharedapi.ProxySettings
		if err := json.Unmarshal(override, &proxy); err != nil {
			return launch.Request{}, fmt.Errorf("decode proxyOverride: %w", err)
		}
		request.Override.Proxy = &launch.Proxy{
			Server: proxy.Server, Bypass: valueOr(proxy.Bypass, ""), Username: valueOr(proxy.Username, ""), Password: valueOr(proxy.Password, ""),
		}
	}
	return request, nil
}

// storageState converts a state, which has the same JSON format in both types.
func storageState(of workerapi.StorageState) (*storagestate.State, error) {
	raw, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	state := new(storagestate.State)
	if err := json.Unmarshal(raw, state); err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	return state, nil
}

func criteria(spec *sharedapi.LaunchSpec) launch.Criteria {
	return launch.Criteria{
		Filename: valueOr(spec.Filename, ""),
		OS:       string(valueOr(spec.Os, "")), OSVersion: valueOr(spec.OsVersion, ""), WindowsVersion: string(valueOr(spec.WindowsVersion, "")),
		OSArch: string(valueOr(spec.OsArch, "")), Model: valueOr(spec.Model, ""), Renderer: valueOr(spec.Renderer, ""), GPUName: valueOr(spec.GpuName, ""),
	}
}

func overrides(b workerapi.BrowserSettings) launch.Settings {
	settings := launch.Settings{
		UserAgent:         b.UserAgent,
		Locale:            b.Locale,
		TimezoneID:        b.TimezoneId,
		ColorScheme:       (*string)(b.ColorScheme),
		Viewport:          size(b.Viewport),
		Screen:            size(b.Screen),
		DeviceScaleFactor: b.DeviceScaleFactor,
		Args:              valueOr(b.Args, nil),
		StartURLs:         valueOr(b.StartUrls, nil),
		Record:            record(b.Record),
		Limits:            limitChanges(b.IdleTimeoutSeconds, b.MaxDurationSeconds, b.ConnectTimeoutSeconds),
		CACertificates:    valueOr(b.CaCertificates, nil),
	}
	if b.ClientCertificates != nil {
		settings.ClientCertificates = []certs.ClientInput{}
		for _, entry := range *b.ClientCertificates {
			settings.ClientCertificates = append(settings.ClientCertificates, certs.ClientInput{
				Origin: entry.Origin, Cert: valueOr(entry.Cert, ""), Key: valueOr(entry.Key, ""),
				PFX: valueOr(entry.Pfx, ""), Passphrase: valueOr(entry.Passphrase, ""),
			})
		}
	}
	if b.Geolocation != nil {
		settings.Geolocation = &browser.Geolocation{
			Latitude: b.Geolocation.Latitude, Longitude: b.Geolocation.Longitude, Accuracy: valueOr(b.Geolocation.Accuracy, 0),
		}
	}
	if b.Permissions != nil {
		settings.Permissions = []string{}
		for _, permission := range *b.Permissions {
			settings.Permissions = append(settings.Permissions, string(permission))
		}
	}
	if b.Metadata != nil {
		settings.Metadata = *b.Metadata
	}
	return settings
}

// limitChanges converts limits in seconds.
func limitChanges(idle, most, connect *int32) launch.LimitChanges {
	convert := func(seconds *int32) *time.Duration {
		if seconds == nil {
			return nil
		}
		return new(time.Duration(*seconds) * time.Second)
	}
	return launch.LimitChanges{Idle: convert(idle), Max: convert(most), Connect: convert(connect)}
}

func size(s *sharedapi.Size) *browser.Size {
	if s == nil {
		return nil
	}
	return &browser.Size{Width: int(s.Width), Height: int(s.Height)}
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
