package rest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckNetworkRules_DecidesByAllLevels(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	tm := a.team()
	a.do("PATCH", tm.path, tm.owner.c, map[string]any{"network": map[string]any{"connect": map[string]any{"deny": []any{"tracker.test"}}}}).want(t, 200, "")
	a.wantRecorded("organization.updated")
	shop := map[string]any{"navigate": map[string]any{"allow": []any{"*.shop.test"}, "ask": []any{"pay.shop.test"}}}
	readOnly := map[string]any{"methods": map[string]any{"readOnly": true}}
	decision := func(decision string, level, rule any) map[string]any {
		return map[string]any{"decision": decision, "level": level, "rule": rule}
	}
	for name, c := range map[string]struct{ body, want map[string]any }{
		"no rule":                {map[string]any{"url": "https://example.com/"}, decision("allow", nil, nil)},
		"the stored rules":       {map[string]any{"url": "https://tracker.test/"}, decision("deny", "organization", "connect.deny: tracker.test")},
		"others":                 {map[string]any{"url": "https://tracker.test/", "organization": shop}, decision("deny", "organization", "navigate.allow")},
		"none of them":           {map[string]any{"url": "https://tracker.test/", "organization": nil, "profile": nil}, decision("allow", nil, nil)},
		"a profile":              {map[string]any{"url": "HTTPS://WWW.SHOP.TEST", "profile": shop}, decision("allow", "profile", "navigate.allow: *.shop.test")},
		"a person":               {map[string]any{"url": "https://pay.shop.test/", "profile": shop}, decision("ask", "profile", "navigate.ask: pay.shop.test")},
		"a launch":               {map[string]any{"url": "https://www.shop.test/", "method": "POST", "profile": shop, "launch": readOnly}, decision("deny", "launch", "methods.readOnly")},
		"contents and sockets":   {map[string]any{"url": "wss://tracker.test/", "type": "other", "profile": shop}, decision("deny", "organization", "connect.deny: tracker.test")},
		"contents are no tabs":   {map[string]any{"url": "https://cdn.test/a.png", "type": "image", "profile": shop}, decision("allow", nil, nil)},
		"contents of a kind":     {map[string]any{"url": "https://cdn.test/a.png", "type": "image", "launch": map[string]any{"block": []any{"image"}}}, decision("deny", "launch", "block: image")},
		"documents of a scheme":  {map[string]any{"url": "data:text/html,x", "profile": shop}, decision("deny", "profile", "navigate.allow")},
		"documents without text": {map[string]any{"url": "about:blank", "profile": shop}, decision("allow", nil, nil)},
	} {
		got := decode[map[string]any](t, a.do("POST", "/v1/network-rules/check", tm.member.c, c.body), 200)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	a.wantRecorded()
}

func TestCheckNetworkRules_NamesInvalidFields(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	tm := a.team()
	invalid := map[string]any{"navigate": map[string]any{"deny": []any{"a b"}}}
	r := a.do("POST", "/v1/network-rules/check", tm.owner.c, map[string]any{"url": "example.com", "organization": invalid, "profile": invalid, "launch": invalid})
	r.want(t, 400, "VALIDATION_ERROR")
	want := []string{"organization.navigate.deny[0] INVALID_FORMAT", "profile.navigate.deny[0] INVALID_FORMAT", "launch.navigate.deny[0] INVALID_FORMAT", "url INVALID_FORMAT"}
	if diff := cmp.Diff(want, r.fields); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	for _, body := range []map[string]any{{}, {"url": ""}, {"url": 1}, {"url": "https://a.test/", "type": "ad"}, {"url": "https://a.test/", "launch": map[string]any{"open": true}}} {
		a.wrong("POST", "/v1/network-rules/check", tm.owner.c, body).want(t, 400, "VALIDATION_ERROR")
	}
	a.wantRecorded()
}
