package browser

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/sandbox"
)

// timezoneTimeout limits how long a browser's pages may take to notice a new
// time zone.
const timezoneTimeout = 5 * time.Second

// CanChangeTimezone reports whether the time zone of a running browser can be
// changed. This requires private files, which include /etc/localtime.
func (l *Launcher) CanChangeTimezone() bool {
	return l.hasPrivateFiles() && sandbox.HasTimezone("Etc/UTC")
}

// changeTimezone changes the time zone of a running browser and returns when its
// pages see it. It fails for a zone that this host does not know.
func (b *Browser) changeTimezone(ctx context.Context, zone string) error {
	if b.sandbox == nil || !sandbox.HasTimezone(zone) {
		return fmt.Errorf("the time zone cannot be changed to %q", zone)
	}
	ctx, cancel := context.WithTimeout(ctx, timezoneTimeout)
	defer cancel()
	clocks, err := b.timezonePages(ctx)
	defer func() {
		for _, c := range clocks {
			_ = b.conn.Call(ctx, "", "Target.detachFromTarget", object{"sessionId": c.session}, nil)
		}
	}()
	if err != nil {
		return fmt.Errorf("time zone: %w", err)
	}
	if err := b.sandbox.SetTimezone(zone); err != nil {
		return err
	}
	for _, c := range clocks {
		if err := c.await(ctx, zone, b.sandbox.SetTimezone); err != nil {
			return fmt.Errorf("time zone: %w", err)
		}
	}
	return nil
}

// warmUpTimezone changes a browser's time zone and changes it back. Only the
// first change is slow: Chromium reads its zone when idle.
func (b *Browser) warmUpTimezone(ctx context.Context) error {
	if !b.l.hasPrivateFiles() {
		return nil
	}
	home, err := b.sandbox.Timezone()
	if err != nil {
		return nil //nolint:nilerr // the host's zone has no name
	}
	away := detourZones[slices.IndexFunc(detourZones, func(name string) bool { return !sandbox.SameTimezone(name, home) })]
	if err := b.changeTimezone(ctx, away); err != nil {
		b.l.log.Debug("browser is slow to notice its time zone", "launchId", b.LaunchID, "error", err)
		return b.sandbox.SetTimezone(home)
	}
	return b.changeTimezone(ctx, home)
}

// timezonePage is a page that is asked for its time zone.
type timezonePage struct {
	conn    *cdp.Conn
	session string
	before  string // the zone that it was in
}

// timezonePages attaches to all pages. With an error it returns those attached
// so far.
func (b *Browser) timezonePages(ctx context.Context) (clocks []timezonePage, err error) {
	pages, err := b.pageTargets(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range pages {
		var in struct{ SessionID string }
		if err := b.conn.Call(ctx, "", "Target.attachToTarget", object{"targetId": id, "flatten": true}, &in); err != nil {
			return clocks, err
		}
		c := timezonePage{conn: b.conn, session: in.SessionID}
		if c.before, err = c.zone(ctx); err != nil {
			return append(clocks, c), err
		}
		clocks = append(clocks, c)
	}
	return clocks, nil
}

func (c timezonePage) zone(ctx context.Context) (string, error) {
	var answer struct{ Result struct{ Value string } }
	question := object{"expression": "Intl.DateTimeFormat().resolvedOptions().timeZone", "returnByValue": true}
	err := c.conn.Call(ctx, c.session, "Runtime.evaluate", question, &answer)
	return answer.Result.Value, err
}

// detourZones are time zones with only one name.
var detourZones = []string{"Asia/Tokyo", "America/Phoenix", "Africa/Nairobi"}

// await waits until the page is in a zone, under any of its names. A browser
// that has not read its zone before assumes that the new one is unchanged and
// does not notify its pages; await then switches to another zone and back.
func (c timezonePage) await(ctx context.Context, zone string, set func(string) error) error {
	around := slices.IndexFunc(detourZones, func(name string) bool { return name != c.before && !sandbox.SameTimezone(name, zone) })
	last, again := zone, time.NewTicker(150*time.Millisecond)
	defer again.Stop()
	for {
		now, err := c.zone(ctx)
		if err != nil || last == zone && now != c.before && now != detourZones[around] || sandbox.SameTimezone(now, zone) {
			return err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-again.C:
			if last == zone {
				last = detourZones[around]
			} else {
				last = zone
			}
			if err := set(last); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
