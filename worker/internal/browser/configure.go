package browser

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNotWarm is what a Configure of a browser returns that was not started as a
// spare, or has been claimed.
var ErrNotWarm = errors.New("browser: not a spare")

// StartupSettings lists what a spare could not be given: the settings that only a start
// makes, by their names in the API; nil when a Configure gives all. Whatever a page,
// frame, worker or server could tell from a browser started with the setting is
// here; DeviceScaleFactor for example makes no difference where the protocol
// sets the metrics anyway.
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
	add(s.IgnoreHTTPSErrors, "ignoreHTTPSErrors")
	add(len(s.Args) > 0, "args")
	add(s.Data != nil, "persist")
	return names
}

// Configure makes a spare the browser of s, as if it had been started for it, and
// returns when its settings hold for its first page. What s says of build,
// display kind, locale, launch id and proxy is the spare's already. A browser
// whose claim failed is of no use any more: its end is the caller's.
func (b *Browser) Configure(ctx context.Context, s Spec) error {
	if !b.spec.Warm || !b.configured.CompareAndSwap(false, true) {
		return fmt.Errorf("claim %s: %w", b.LaunchID, ErrNotWarm)
	}
	s.LaunchID = b.LaunchID
	if err := b.configure(ctx, &s); err != nil {
		return fmt.Errorf("claim %s: %w", b.LaunchID, err)
	}
	return nil
}

func (b *Browser) configure(ctx context.Context, s *Spec) error {
	if err := s.validate(); err != nil {
		return err
	}
	if s.Build != b.Build || s.Headless != b.Headless || s.Locale != b.spec.Locale {
		return errors.New("it was started as another kind of browser")
	}
	if cold := s.StartupSettings(); cold != nil {
		return fmt.Errorf("only a start can give %v", cold)
	}
	if s.TimezoneID != "" {
		if err := b.changeTimezone(ctx, s.TimezoneID); err != nil {
			return err
		}
	}
	if err := b.conn.Call(ctx, "", "Browser.getVersion", nil, nil); err != nil { // it may have died, or hang
		return err
	}
	b.AnsweredAt = time.Now().UTC()
	if err := b.openFirstTab(ctx, s); err != nil {
		return fmt.Errorf("first tab: %w", err)
	}
	return b.applySettings(ctx, s)
}

// start gives the spare the first tab that it would have been started with.
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

// replaceTab opens the start page in a tab of its own, in place of the one that the
// spare has. Navigated, that one would keep its past in the page's history, and
// the page would begin without focus and dimensions.
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

// closeAllTabs closes all tabs, and waits until they are gone: the answer comes before.
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

// pageTargets are the target ids of the browser's tabs.
func (b *Browser) pageTargets(ctx context.Context) (ids []string, err error) {
	var list struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	if err := b.conn.Call(ctx, "", "Target.getTargets", nil, &list); err != nil {
		return nil, err
	}
	for _, t := range list.TargetInfos {
		if t.Type == "page" {
			ids = append(ids, t.TargetID)
		}
	}
	return ids, nil
}
