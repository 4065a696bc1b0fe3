package webhook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

func TestEndpoints_ChangesAreRecorded(t *testing.T) {
	f := newFixture(t)
	e, secret := f.endpoint("https://hooks.example.com/path-with-secret")
	if !strings.HasPrefix(secret, "whsec_") || len(secret) != 50 {
		t.Errorf("the secret is %q", secret)
	}
	changed, err := f.Update(t.Context(), f.org, e.ID, json.RawMessage(`{"types": ["key.revoked"], "description": "orders"}`))
	f.must(err)
	if changed.Types == nil || (*changed.Types)[0] != "key.revoked" || *changed.Description != "orders" || changed.URL != e.URL || !changed.Enabled {
		t.Errorf("got %+v", changed)
	}
	changed, err = f.Update(t.Context(), f.org, e.ID, json.RawMessage(`{"types": null, "description": null}`))
	f.must(err)
	if changed.Types != nil || changed.Description != nil {
		t.Errorf("got %+v", changed)
	}
	rotatedEndpoint, next, err := f.RotateSecret(t.Context(), f.org, e.ID)
	f.must(err)
	if next == secret || rotatedEndpoint.OldSecretUntil == nil {
		t.Errorf("got %+v", rotatedEndpoint)
	}
	list, err := f.List(t.Context(), f.org, page.Request{Page: 1, Limit: 10, SortBy: "url"})
	f.must(err)
	if list.Total != 1 || list.Items[0].ID != e.ID {
		t.Errorf("got %+v", list)
	}
	f.must(f.Delete(t.Context(), f.org, e.ID))
	_, err = f.Get(t.Context(), f.org, e.ID)
	assertFault(t, err, fault.NotFound)
	got := strings.Split(f.text(`SELECT string_agg(action, ',' ORDER BY id) FROM audit_events`), ",")
	if !slices.Equal(got, []string{created, updated, updated, rotated, deleted}) {
		t.Errorf("got %v", got)
	}
	for _, hidden := range []string{"path-with-secret", secret, next} {
		if strings.Contains(f.text(`SELECT string_agg(details::text, ' ') FROM audit_events`), hidden) {
			t.Errorf("the audit log has %q", hidden)
		}
	}
}

func TestEndpoints_BelongToAnOrganization(t *testing.T) {
	f := newFixture(t)
	e, _ := f.endpoint("https://hooks.example.com")
	other := f.tenant()
	_, err := f.Get(t.Context(), other, e.ID)
	assertFault(t, err, fault.NotFound)
	_, err = f.Update(t.Context(), other, e.ID, json.RawMessage(`{"enabled": false}`))
	assertFault(t, err, fault.NotFound)
	_, _, err = f.RotateSecret(t.Context(), other, e.ID)
	assertFault(t, err, fault.NotFound)
	_, err = f.SendTest(t.Context(), other, e.ID)
	assertFault(t, err, fault.NotFound)
	_, err = f.Deliveries(t.Context(), other, e.ID, nil, page.Request{Page: 1, Limit: 10})
	assertFault(t, err, fault.NotFound)
	_, err = f.Resend(t.Context(), f.org, e.ID, uuid.New())
	assertFault(t, err, fault.NotFound)
	assertFault(t, f.Delete(t.Context(), other, e.ID), fault.NotFound)
}

func TestCreate_RefusesURLsAndAtLimit(t *testing.T) {
	f := newFixture(t)
	f.AllowHTTP = false
	for _, url := range []string{"http://hooks.example.com", "https://user@hooks.example.com", "https:///path", "https://hooks.example.com/#x", "https://%zz", "ftp://hooks.example.com"} {
		_, _, err := f.Create(t.Context(), f.org, Fields{URL: url, Enabled: true})
		assertFault(t, err, fault.Validation)
	}
	for i := range maxEndpoints {
		f.endpoint(fmt.Sprintf("https://hooks.example.com/%d", i))
	}
	_, _, err := f.Create(t.Context(), f.org, Fields{URL: "https://hooks.example.com", Enabled: true})
	assertFault(t, err, fault.Forbidden)
	f.AllowHTTP = true
	id := uuid.MustParse(f.text(`SELECT id FROM webhook_endpoints LIMIT 1`))
	_, err = f.Update(t.Context(), f.org, id, json.RawMessage(`{"url": "http://hooks.example.com"}`))
	f.must(err)
}

func TestReencrypt_UsesTheFirstKey(t *testing.T) {
	f := newFixture(t)
	e, first := f.endpoint("https://hooks.example.com")
	_, second, err := f.RotateSecret(t.Context(), f.org, e.ID)
	f.must(err)
	if total, unreadable, err := Check(t.Context(), f.System, newBox(t, 2)); total != 2 || len(unreadable) != 2 || err != nil {
		t.Errorf("with another key: %d, %v, %v", total, unreadable, err)
	}
	n, err := Reencrypt(t.Context(), f.System, newBox(t, 2, 1))
	f.must(err)
	if total, unreadable, err := Check(t.Context(), f.System, newBox(t, 2)); n != 1 || total != 2 || unreadable != nil || err != nil {
		t.Errorf("after %d: %d, %v, %v", n, total, unreadable, err)
	}
	var stored row
	f.must(f.System.GetContext(t.Context(), &stored, `SELECT `+columns+` FROM webhook_endpoints`))
	for want, sealed := range map[string][]byte{second: stored.Secret, first: stored.OldSecret} {
		if got, err := stored.open(newBox(t, 2), sealed); got != want || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
}
