package browser

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/sandbox"
)

// timezoneTimeout bounds how long the pages of a browser may take to note that it has
// moved to another time zone.
const timezoneTimeout = 5 * time.Second

// CanMoveTimezone reports whether a running browser can be given another time
// zone: in a room with files of its own it has an /etc/localtime of its own.
func (l *Launcher) CanMoveTimezone() bool {
	return l.hasPrivateFiles() && sandbox.HasTimezone("Etc/UTC")
}

// changeTimezone changes the time zone of a running browser, and returns when its
// pages see it. A zone that this host does not know is an error.
func (b *Browser) changeTimezone(ctx context.Context, zone string) error {
	if b.sandbox == nil || !sandbox.HasTimezone(zone) {
		return fmt.Errorf("it cannot move to the time zone %q", zone)
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

// warmUpTimezone moves a browser to another time zone and back. Only the first move
// takes long: Chromium looks at its zone when it has nothing better to do.
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
		b.l.log.Debug("browser slow to see its time zone", "launchId", b.LaunchID, "error", err)
		return b.sandbox.SetTimezone(home)
	}
	return b.changeTimezone(ctx, home)
}

// timezonePage is a page, asked for its time zone.
type timezonePage struct {
	conn    *cdp.Conn
	session string
	before  string // the zone that it was in
}

// timezonePages attaches to all pages. After an error it returns those so far.
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

// detourZones are time zones that go by one name.
var detourZones = []string{"Asia/Tokyo", "America/Phoenix", "Africa/Nairobi"}

// awaitExit waits until the page is in a zone, whichever of its names it calls it by.
// A browser that has not looked at its zone before takes the new one for what it
// always had, and does not tell its pages; it is led there by way of another.
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
