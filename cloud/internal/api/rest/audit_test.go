package rest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
)

func TestAudit_ShowsActor(t *testing.T) {
	a := newOperationsAPI(t)
	created := a.do("POST", "/v1/profiles", bearer("member").with("X-Request-Id", "request-1"), proxied)
	p := decode[cloudapi.Profile](t, created, 201)
	a.do("PATCH", path(p), bearer("admin"), map[string]any{"notes": "hunter3", "proxy": map[string]any{"password": "hunter4"}}).want(t, 200, "")
	a.do("DELETE", path(p), bearer("owner"), nil).want(t, 200, "")
	list := decode[cloudapi.AuditEventList](t, a.do("GET", "/v1/audit-events?sortBy=action&sortOrder=asc", bearer("owner"), nil), 200)
	if len(list.Items) != 3 || list.Pagination.Total != 3 {
		t.Fatalf("%d events: %+v", len(list.Items), list.Items)
	}
	got := list.Items[0]
	if got.Id.Version() != 7 || !got.CreatedAt.Equal(a.clock.Now()) {
		t.Errorf("event %s at %s", got.Id, got.CreatedAt)
	}
	got.Id, got.CreatedAt = uuid.Nil, a.clock.Now()
	member := a.people["member"].user
	want := cloudapi.AuditEvent{
		Action: "profile.created", TargetId: p.Id.String(), Details: cloudapi.AuditDetails{"name": "Proxied"},
		Actor:         cloudapi.AuditActor{Type: "user", Id: &member, Email: new("member@example.com")},
		ClientAddress: new("127.0.0.1"), RequestId: new("request-1"), CreatedAt: a.clock.Now(),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the first event (-want +got):\n%s", diff)
	}
	deleted, updated := list.Items[1], list.Items[2]
	if deleted.Action != "profile.deleted" || *deleted.Actor.Email != "owner@example.com" || updated.Action != "profile.updated" {
		t.Errorf("then %+v and %+v", deleted, updated)
	}
	if diff := cmp.Diff(cloudapi.AuditDetails{"name": "Proxied", "fields": []any{"notes", "proxy"}}, updated.Details); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
}

func TestAudit_FiltersAndPages(t *testing.T) {
	a := newOperationsAPI(t)
	a.record(a.org, "apiKey.created", "k1")     // 12:01
	a.record(a.org, "member.roleChanged", "m1") // 12:02
	a.record(a.org, "apiKey.created", "k2")     // 12:03
	a.record(uuid.New(), "apiKey.created", "foreign")
	for query, want := range map[string][]string{
		"":                                  {"k2", "m1", "k1"},
		"?sortOrder=asc":                    {"k1", "m1", "k2"},
		"?action=apiKey.created":            {"k2", "k1"},
		"?targetId=m1":                      {"m1"},
		"?targetId=foreign":                 {},
		"?actorId=" + uuid.NewString():      {},
		"?from=2026-11-21T12:02:00Z":        {"k2", "m1"},
		"?to=2026-11-21T12:02:00Z":          {"k1"},
		"?limit=2&page=2":                   {"k1"},
		"?sortBy=action&limit=1":            {"m1"},
		"?targetId=m1&action=member.gone":   {},
		"?from=2026-11-21T13:02:00%2B01:00": {"k2", "m1"},
	} {
		list := decode[cloudapi.AuditEventList](t, a.do("GET", "/v1/audit-events"+query, bearer("admin"), nil), 200)
		got := []string{}
		for _, e := range list.Items {
			got = append(got, e.TargetId)
			if e.Actor.Type != "system" || e.Actor.Id != nil || e.Actor.Email != nil || e.ClientAddress != nil || e.RequestId != nil {
				t.Errorf("an event without a request: %+v", e)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	for _, query := range []string{"?action=x", "?action=Key.Created", "?actorId=x", "?from=yesterday", "?sortBy=details", "?organizationId=" + a.org.String()} {
		a.wrong("GET", "/v1/audit-events"+query, bearer("admin"), nil).want(t, 400, "VALIDATION_ERROR")
	}
}

func TestAudit_RequiresOwnerOrAdmin(t *testing.T) {
	a := newOperationsAPI(t)
	a.record(a.org, "apiKey.created", "k1")
	a.do("GET", "/v1/audit-events", bearer("member"), nil).want(t, 403, "AUTHORIZATION_ERROR")
	a.do("GET", "/v1/audit-events", nil, nil).want(t, 401, "AUTHENTICATION_ERROR")
	a.do("GET", "/v1/audit-events", apiKey("svc_x"), nil).want(t, 401, "AUTHENTICATION_ERROR")
	list := decode[cloudapi.AuditEventList](t, a.do("GET", "/v1/audit-events", bearer("other"), nil), 200)
	if len(list.Items) != 0 || list.Pagination.Total != 0 {
		t.Errorf("the owner of another organization got %+v", list)
	}
	a.people["other"] = member{user: a.people["other"].user}
	a.do("GET", "/v1/audit-events", bearer("other"), nil).want(t, 400, "VALIDATION_ERROR")
}
