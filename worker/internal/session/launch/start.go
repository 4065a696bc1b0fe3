package launch

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/activity"
	"github.com/browser-svc/svc/worker/internal/session/launch/admission"
)

// start starts the browser of a grant, adds its session and watches it. A launch that does
// not count yet counts first. After an error no resources leak.
func (s *Service) start(ctx context.Context, a *attempt, grant Grant) (*running, error) {
	if err := a.place.Count(); err != nil {
		a.full = true
		return nil, err
	}
	request := a.Request
	spec, settings, bundle, err := s.prepareSpec(grant.Profile, request, a.host())
	if err != nil {
		return nil, err
	}
	spec.Replay = a.replay
	if err := settings.setTrust(ctx, request, &spec); err != nil {
		return nil, err
	}
	field := request.proxyField()
	if request.Override.Proxy == nil || !request.usesWorkerKey() { // otherwise it was checked before the authorization
		if err := s.checkProxy(ctx, settings.Proxy, field); err != nil {
			return nil, err
		}
	}
	postponed := postponeStartURLs(&spec, NewRecord(settings.Record))
	run := newRunning(a, grant.Profile.ID)
	releaseExtensions, err := s.useExtensions(request.Extensions, &spec)
	if err != nil {
		return nil, err
	}
	start, err := s.acquireBrowser(ctx, run, grant.Profile, settings.Proxy, field, spec)
	if err != nil {
		releaseExtensions()
		return nil, err
	}
	run.resources.extensions = releaseExtensions
	s.starts.count(start)
	a.timeline.record(ctx, session.Answered, run.browser.AnsweredAt)
	a.timeline.record(ctx, session.Ready, s.Clock.Now())
	run.activity = activity.New(s.Clock)
	run.browser.WatchDebugPort(run.activity.Watch)
	run.lifetime = newLifetime(s.Clock, run.activity, s.limits(request, settings))
	if err := s.bindFiles(run, a.id, request.KeepFiles); err != nil {
		return nil, err
	}
	opened := session.Session{
		ID: a.id, LaunchID: uuid.MustParse(run.browser.LaunchID), SlotID: grant.SlotID, ProfileID: grant.Profile.ID, ProfileName: grant.Profile.Name,
		BrowserVersion: spec.Build.Major, Engine: string(spec.Build.Engine), Headless: request.Headless, DevTools: spec.Build.DevTools, Name: request.Name, Metadata: settings.Metadata, Bundle: bundle,
		DebugPort: run.browser.DebugPort, DebugPath: run.browser.WebSocketPath, StartedAt: run.lifetime.start,
		OrganizationKey: request.OrganizationKey, Start: start, Timeline: a.timeline.snapshot(),
	}
	if err := s.openActionLog(run, opened); err != nil {
		return nil, err
	}
	s.addSession(run, opened)
	s.startRecording(run, request, NewRecord(settings.Record))
	s.openStartURLs(ctx, run, postponed)
	return run, nil
}

// addSession adds a session for a started browser and watches it. The session is listed
// and gets its browser under one lock, so that a client that sees the session can also end it.
func (s *Service) addSession(run *running, added session.Session) {
	s.Tokens.Begin(added.LaunchID.String())
	s.observeHandovers(run, added)
	context.AfterFunc(run.browser.Calls().Closing(), run.closeByClient)
	run.place.Run()
	s.mu.Lock()
	run.session = s.Sessions.Add(added)
	s.live[added.ID] = run
	if s.closing {
		run.requestEnd(session.Drain)
	}
	s.mu.Unlock()
	s.active.Go(func() { s.watch(run) })
}

// bindFiles gives the files of a browser to its session. After an error the browser has
// ended.
func (s *Service) bindFiles(run *running, id uuid.UUID, keep bool) error {
	files := run.browser.Files()
	if files == nil {
		return nil
	}
	err := files.Bind(id, keep)
	if err == nil {
		return nil
	}
	message := "The files of the browser could not be stored."
	if !run.browser.Exit().At.IsZero() {
		message = "The browser ended while it started."
	}
	s.stopBrowser(run)
	run.resources.release()
	return fault.Wrap(err, fault.Internal, message)
}

// startCold starts a new browser for a launch.
func (s *Service) startCold(ctx context.Context, run *running, profile Profile, proxy *settings.Proxy, field string, spec browser.Spec) error {
	held, err := s.acquireResources(ctx, profile, run.dataUse, proxy, field, &spec)
	if err != nil {
		return err
	}
	if run.browser, err = s.Launcher.Launch(ctx, spec); err != nil {
		held.release()
		return s.launchError(ctx, spec.LaunchID, err)
	}
	held.restrict(run.browser.UID())
	run.resources = held
	run.timeline.record(ctx, session.Started, run.browser.ExecutedAt)
	return nil
}

// prepareSpec builds the browser spec for a profile and a request. acquireResources
// adds the directories and the proxy address.
func (s *Service) prepareSpec(profile Profile, request Request, host hostSnapshot) (_ browser.Spec, settings Settings, bundle session.Bundle, err error) {
	build, err := host.findBuild(profile.BrowserVersion, s.needs(request, profile))
	if err == nil {
		err = request.checkBuild(build)
	}
	if err != nil {
		return browser.Spec{}, settings, bundle, err
	}
	launchID, err := uuid.NewV7()
	if err != nil {
		return browser.Spec{}, settings, bundle, fmt.Errorf("generate launch id: %w", err)
	}
	settings, bundle = s.settings(request, profile)
	rules, err := s.rules(request, profile, settings.StartURLs)
	if err != nil {
		return browser.Spec{}, settings, bundle, err
	}
	if details := checkProxyAddress(settings.Proxy, request.proxyField()); len(details) > 0 {
		return browser.Spec{}, settings, bundle, fault.Invalid(details...)
	}
	if err := checkSettings(request, profile, settings, build); err != nil {
		return browser.Spec{}, settings, bundle, err
	}
	details := append(s.checkRecord(NewRecord(settings.Record), recordField, alsoInProfile), settings.limits().check(s.LimitRules.Highest, "browser.", alsoInProfile)...)
	if len(details) > 0 {
		return browser.Spec{}, settings, bundle, fault.Invalid(details...)
	}
	spec := browser.Spec{
		LaunchID: launchID.String(), Build: build, Headless: request.Headless, Timeout: request.Timeout,
		Emulation: settings.Emulation, Options: settings.Options, Rules: rules,
	}
	if len(spec.StartURLs) == 0 && !spec.Headless {
		spec.StartURLs = nil // a headful browser needs a tab
	}
	if request.State != nil {
		spec.BeforeFirstPage = func(ctx context.Context, conn *cdp.Conn) error { return request.State.Write(ctx, conn, stateField) }
	}
	return spec, settings, bundle, nil
}

// alsoInProfile is a part of the message about a setting that a profile can have.
const alsoInProfile = ", also in the profile"

// stateField is the prefix of the names of a state's fields.
const stateField = "browser.state."

// launchError returns the client error for a browser that did not start.
func (s *Service) launchError(ctx context.Context, launchID string, err error) error {
	if invalid, ok := errors.AsType[*fault.Error](err); ok { // the browser refuses the state
		return invalid
	}
	s.Logger.WarnContext(ctx, "browser did not start", "launchId", launchID, "error", err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return admission.Canceled(err)
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(err, fault.Timeout, "The browser did not start in time.")
	case errors.Is(err, browser.ErrNoSandbox):
		return fault.Wrap(err, fault.Internal, "The host of this worker does not support Chromium's sandbox. See the worker's log and MIN_ISOLATION.")
	}
	if refused, ok := errors.AsType[*browser.ExtensionError](err); ok {
		return extensionRefused(refused)
	}
	return fault.Wrap(err, fault.Internal, "The browser did not start.")
}
