package browser_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser"
)

func TestIsolation_Timezone(t *testing.T) {
	r := newIsolatedFixture(t)
	spec := r.spec("zone")
	spec.TimezoneID = "Asia/Tokyo"
	c := dial(t, r.launch(t, spec))
	if got := zoneOf(t, c, c.open(t, "about:blank")); got != "Asia/Tokyo -540" {
		t.Errorf("got time zone %s", got)
	}
}

func TestChangeTimezone(t *testing.T) {
	r := newIsolatedFixture(t)
	if !r.CanChangeTimezone() || newFixture(t).CanChangeTimezone() {
		t.Fatal("CanChangeTimezone is wrong with or without isolation")
	}
	for _, build := range majorBuilds(t) {
		spec := r.spec("zone-" + build.Version[:3])
		spec.Build, spec.Headless, spec.Warm = build, !build.Headful, true
		b := r.launch(t, spec)
		c := dial(t, b)
		pages := []string{c.attach(t, c.pages(t)[0].TargetID), c.open(t, "about:blank")}
		for zone, want := range map[string]string{
			"Asia/Tokyo": "Asia/Tokyo -540", "America/Phoenix": "America/Phoenix 420", "Asia/Kolkata": "Asia/Calcutta -330",
			"US/Arizona": "America/Phoenix 420", "Etc/UTC": "UTC 0", "Europe/Kyiv": "Europe/Kiev",
		} {
			began := time.Now()
			if err := browser.ChangeTimezone(t.Context(), b, zone); err != nil {
				t.Fatalf("%s to %s: %v", build.Version, zone, err)
			}
			took := time.Since(began)
			for _, page := range append(pages, c.open(t, "about:blank")) {
				if got := zoneOf(t, c, page); len(got) < len(want) || got[:len(want)] != want {
					t.Errorf("%s changed to %s: got %s, want %s", build.Version, zone, got, want)
				}
			}
			t.Logf("%s to %s in %v", build.Version, zone, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := browser.ChangeTimezone(ctx, b, "Nowhere/City"); err == nil {
			t.Error("got no error for an unknown time zone")
		}
		cancel()
		if err := b.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// The page shows each zone 30 ms late. While await makes a detour, the page shows
// first the new zone and then the zone of the detour.
func TestChangeTimezone_WaitsForTheEndOfADetour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const late, before, zone = 30 * time.Millisecond, "UTC", "Europe/Paris"
		type change struct {
			at   time.Time
			zone string
		}
		changes := []change{{time.Now(), zone}}
		shown := func() string {
			shown := before
			for _, c := range changes {
				if time.Since(c.at) > late {
					shown = c.zone
				}
			}
			return shown
		}
		read := func(context.Context) (string, error) { return shown(), nil }
		set := func(zone string) error {
			changes = append(changes, change{time.Now(), zone})
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := browser.AwaitTimezone(ctx, before, zone, 25*time.Millisecond, read, set); err != nil {
			t.Fatal(err)
		}
		if len(changes) < 3 {
			t.Fatalf("got %d changes of the zone, want a detour", len(changes))
		}
		for range 20 {
			if got := shown(); got != zone {
				t.Fatalf("got %s after await, want %s", got, zone)
			}
			time.Sleep(late / 10)
		}
	})
}

func (c client) pages(t *testing.T) (pages []targetInfo) {
	t.Helper()
	for _, target := range c.targets(t) {
		if target.Type == "page" {
			pages = append(pages, target)
		}
	}
	return pages
}

func zoneOf(t *testing.T, c client, page string) (zone string) {
	t.Helper()
	c.eval(t, page, `Intl.DateTimeFormat().resolvedOptions().timeZone + ' ' + new Date(2026, 0, 15).getTimezoneOffset()`, &zone)
	return zone
}
