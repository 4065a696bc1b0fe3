package browser

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/browser-svc/svc/shared/settings"
)

// ErrNotWarm is returned by Configure for a browser that was not started warm or
// is already configured.
var ErrNotWarm = errors.New("browser: not a warm browser")

// StartupSettings lists the settings, by their API names, that only a start can
// apply; nil if Configure can apply all of them to a warm browser. A setting is
// listed if any page, frame, worker or server could notice that it was not set
// at the start. DeviceScaleFactor, for example, makes no difference where the
// protocol sets the metrics.
func (s *Spec) StartupSettings() []string {
	var names []string
	add := func(cold bool, name string) {
		if cold {
			names = append(names, name)
		}
	}
	size, scale := s.window()
	add(s.UserAgent != "", "userAgent") // service workers and first requests have it too
	add(s.ColorScheme == "dark", "colorScheme")
	add(size != defaultScreen, "screen")
	add(scale != 1, "deviceScaleFactor")
	add(settings.Enabled(s.IgnoreHTTPSErrors), "ignoreHTTPSErrors")
	add(len(s.CACertificates) > 0, "caCertificates")
	add(len(s.ClientCertificates) > 0, "clientCertificates")
	add(len(s.Args) > 0, "args")
	add(len(s.Extensions) > 0, "extensions")
	add(s.Data != nil, "persist")
	return names
}

// Configure applies the spec to a warm browser, as if the browser had been
// started with it, and returns when its settings hold for the first page. Build,
// display kind, locale, time zone, launch id and proxy remain those of the warm browser.
// After an error the caller must kill the browser.
func (b *Browser) Configure(ctx context.Context, s Spec) error {
	if !b.spec.Warm || !b.configured.CompareAndSwap(false, true) {
		return fmt.Errorf("configure %s: %w", b.LaunchID, ErrNotWarm)
	}
	s.LaunchID = b.LaunchID
	if err := b.configure(ctx, &s); err != nil {
		return fmt.Errorf("configure %s: %w", b.LaunchID, err)
	}
	b.startFreezing()
	return nil
}

func (b *Browser) configure(ctx context.Context, s *Spec) error {
	if err := s.validate(); err != nil {
		return err
	}
	if s.Build != b.Build || s.Headless != b.Headless || s.Locale != b.spec.Locale || s.TimezoneID != b.spec.TimezoneID {
		return errors.New("the warm browser has another build, display kind, locale or time zone")
	}
	if cold := s.StartupSettings(); cold != nil {
		return fmt.Errorf("settings %v can be applied only at the start", cold)
	}
	if err := b.conn.Call(ctx, "", "Browser.getVersion", nil, nil); err != nil { // the browser may have died or hang
		return err
	}
	b.AnsweredAt = time.Now().UTC()
	if err := b.guard.start(ctx, s); err != nil {
		return fmt.Errorf("rules of the launch: %w", err)
	}
	if b.files != nil && b.downloads.denied() {
		b.captureDownloads()
	}
	if err := b.prepareFirstPage(ctx, s); err != nil {
		return err
	}
	return b.applySettings(ctx, s)
}

// prepareFirstPage prepares a browser with one blank tab for its first page, and opens
// the page.
func (b *Browser) prepareFirstPage(ctx context.Context, s *Spec) error {
	if s.BeforeFirstPage != nil {
		if err := s.BeforeFirstPage(ctx, b.conn); err != nil {
			return err
		}
	}
	if err := b.openFirstTab(ctx, s); err != nil {
		return fmt.Errorf("first tab: %w", err)
	}
	return nil
}

// openFirstTab gives a browser with one blank tab the first tab that a launch would open.
func (b *Browser) openFirstTab(ctx context.Context, s *Spec) error {
	switch first := firstURL(s); {
	case s.noTabs():
		return b.closeAllTabs(ctx)
	case first != "about:blank":
		return b.replaceTab(ctx, first)
	default:
		return nil
	}
}

// replaceTab opens the start page in a new tab and closes the existing one.
// Navigating the existing tab would keep its history, and the page would start
// without focus and dimensions.
func (b *Browser) replaceTab(ctx context.Context, address string) error {
	before, err := b.pageTargets(ctx)
	if err != nil {
		return err
	}
	opened, err := b.conn.Send(ctx, "", "Target.createTarget", object{"url": address})
	if err != nil {
		return err
	}
	if err := b.closeTabs(ctx, before); err != nil {
		return err
	}
	return opened.Wait(ctx, nil)
}

// closeAllTabs closes all tabs and waits until they are gone: Chromium answers
// before.
func (b *Browser) closeAllTabs(ctx context.Context) error {
	tabs, err := b.pageTargets(ctx)
	if err == nil {
		err = b.closeTabs(ctx, tabs)
	}
	for err == nil && len(tabs) > 0 {
		select {
		case <-time.After(time.Millisecond):
			tabs, err = b.pageTargets(ctx)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return err
}

// closeTabs closes tabs.
func (b *Browser) closeTabs(ctx context.Context, tabs []string) error {
	for _, id := range tabs {
		if err := b.conn.Call(ctx, "", "Target.closeTarget", object{"targetId": id}, nil); err != nil {
			return err
		}
	}
	return nil
}
