package browser_test

import (
	"testing"
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

// TestConfigure_RefusesOtherTimezone checks that a browser in another time zone is not used:
// its pages would see the wrong one.
func TestConfigure_RefusesOtherTimezone(t *testing.T) {
	r := newFixture(t).withShell(t)
	spec := r.spec("zone")
	b := r.launchWarm(t, spec)
	spec.TimezoneID = "Asia/Tokyo"
	if err := b.Configure(t.Context(), spec); err == nil {
		t.Error("configured")
	}
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
