package rest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/testenv"
)

func TestAPIKey_Lifecycle(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	session := a.signUp("ada@example.com")
	me := bearer(session.Token)
	orgID := a.createOrg(me, "Engines").Id
	path := "/v1/organizations/" + orgID.String() + "/api-keys"

	r := a.do("POST", path, me, map[string]any{"name": "fleet", "expiresAt": nil})
	created := decode[cloudapi.CreatedApiKey](t, r, 201)
	if got := r.header.Get("Location"); got != path+"/"+created.ApiKey.Id.String() {
		t.Errorf("location %q", got)
	}
	if created.ApiKey.CreatedBy == nil || *created.ApiKey.CreatedBy != session.User.Id || created.ApiKey.LastUsedAt != nil {
		t.Errorf("created %+v", created.ApiKey)
	}
	a.do("GET", "/v1/license/sessions", apiKey(created.Key), nil).want(t, 200, "")

	used := a.clock.Now()
	created.ApiKey.LastUsedAt = &used
	var list cloudapi.ApiKeyList
	testenv.Eventually(t, "the last use is written", func() bool { // requests do not wait for the write
		list = decode[cloudapi.ApiKeyList](t, a.do("GET", path+"?sortBy=lastUsedAt", me, nil), 200)
		return len(list.Items) == 1 && list.Items[0].LastUsedAt != nil
	})
	if diff := cmp.Diff([]cloudapi.ApiKey{created.ApiKey}, list.Items); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	item := path + "/" + created.ApiKey.Id.String()
	decode[cloudapi.Empty](t, a.do("DELETE", item, me, nil), 200)
	a.do("GET", "/v1/license/sessions", apiKey(created.Key), nil).want(t, 401, "AUTHENTICATION_ERROR")
	a.do("DELETE", item, me, nil).want(t, 404, "RESOURCE_NOT_FOUND")
	list = decode[cloudapi.ApiKeyList](t, a.do("GET", path, me, nil), 200)
	if len(list.Items) != 0 || list.Pagination.Total != 0 {
		t.Errorf("listed after revocation: %+v", list)
	}
}

func TestAPIKey_ExpiredIsRefused(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	me := bearer(a.signUp("ada@example.com").Token)
	orgID := a.createOrg(me, "Engines").Id
	expires := a.clock.Now().Add(time.Hour)
	key := a.createKey(me, orgID, map[string]any{"name": "fleet", "expiresAt": expires}).Key
	a.do("GET", "/v1/license/sessions", apiKey(key), nil).want(t, 200, "")
	a.clock.Advance(time.Hour)
	a.do("GET", "/v1/license/sessions", apiKey(key), nil).want(t, 401, "AUTHENTICATION_ERROR")
}

func TestWorkerOperations_RequireKey(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	session := a.signUp("ada@example.com")
	orgID := a.createOrg(bearer(session.Token), "Engines").Id
	key := a.createKey(bearer(session.Token), orgID, map[string]any{"name": "fleet"}).Key
	for name, c := range map[string]credential{
		"nothing": nil, "a bearer": bearer(session.Token), "a cookie": cookie(session.Token),
		"a token as key": apiKey(session.Token), "a key as bearer": bearer(key), "an unknown key": apiKey("svc_" + key[5:] + "a"),
	} {
		if r := a.do("GET", "/v1/license/sessions", c, nil); r.status != 401 || r.code != "AUTHENTICATION_ERROR" {
			t.Errorf("%s: %s", name, r.body)
		}
	}
}

func TestCreateAPIKey_Refusals(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	me := bearer(a.signUp("ada@example.com").Token)
	path := "/v1/organizations/" + a.createOrg(me, "Engines").Id.String() + "/api-keys"
	r := a.do("POST", path, me, map[string]any{"name": "fleet", "expiresAt": a.clock.Now()})
	r.want(t, 400, "VALIDATION_ERROR")
	if diff := cmp.Diff([]string{"expiresAt CUSTOM"}, r.fields); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	for _, body := range []map[string]any{{}, {"name": " "}, {"name": "k", "expiresAt": "soon"}, {"name": "k", "scope": "all"}} {
		a.wrong("POST", path, me, body).want(t, 400, "VALIDATION_ERROR")
	}
	a.wrong("GET", path+"?limit=101", me, nil).want(t, 400, "VALIDATION_ERROR")
	a.wrong("DELETE", path+"/nonsense", me, nil).want(t, 400, "VALIDATION_ERROR")
}

func TestListPlans_IsPublic(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	list := decode[cloudapi.PlanList](t, a.do("GET", "/v1/plans?sortOrder=asc", nil, nil), 200)
	if len(list.Items) != 5 || list.Items[0].Slug != "free" || *list.Items[0].ProfileLimit != 3 || list.Items[4].ProfileLimit != nil {
		t.Errorf("plans %+v", list.Items)
	}
	second := decode[cloudapi.PlanList](t, a.do("GET", "/v1/plans?page=2&limit=2&sortOrder=asc", nil, nil), 200)
	if p := second.Pagination; len(second.Items) != 2 || second.Items[0].Slug != "team" || p.Page != 2 || p.Limit != 2 || p.Total != 5 || p.TotalPages != 3 || !p.HasNext || !p.HasPrev {
		t.Errorf("page 2 is %+v", second)
	}
	a.wrong("GET", "/v1/plans?limit=101", nil, nil).want(t, 400, "VALIDATION_ERROR")
}

func TestUpdateAPIKey(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	tm := a.team()
	created := a.createKey(tm.admin.c, tm.id, map[string]any{"name": "fleet"})
	path, want := tm.path+"/api-keys/"+created.ApiKey.Id.String(), created.ApiKey
	expires := a.clock.Now().Add(time.Hour)
	for _, step := range []struct {
		body      map[string]any
		name      string
		expiresAt *time.Time
	}{
		{map[string]any{"name": "Paris"}, "Paris", nil},
		{map[string]any{"expiresAt": expires}, "Paris", &expires},
		{map[string]any{"name": "Rome"}, "Rome", &expires},
		{map[string]any{"expiresAt": nil}, "Rome", nil},
		{map[string]any{"expiresAt": expires}, "Rome", &expires},
	} {
		got := decode[cloudapi.ApiKey](t, a.do("PATCH", path, tm.admin.c, step.body), 200)
		want.Name, want.ExpiresAt = step.name, step.expiresAt
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", step.body, diff)
		}
	}
	a.do("GET", "/v1/license/sessions", apiKey(created.Key), nil).want(t, 200, "")
	a.clock.Advance(time.Hour)
	a.do("GET", "/v1/license/sessions", apiKey(created.Key), nil).want(t, 401, "AUTHENTICATION_ERROR")
	r := a.do("PATCH", path, tm.admin.c, map[string]any{"expiresAt": expires})
	r.want(t, 400, "VALIDATION_ERROR")
	if diff := cmp.Diff([]string{"expiresAt CUSTOM"}, r.fields); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	for _, body := range []map[string]any{{}, {"name": " "}, {"expiresAt": "soon"}, {"key": "x"}} {
		a.wrong("PATCH", path, tm.admin.c, body).want(t, 400, "VALIDATION_ERROR")
	}
	a.do("PATCH", tm.path+"/api-keys/"+tm.id.String(), tm.admin.c, map[string]any{"name": "N"}).want(t, 404, "RESOURCE_NOT_FOUND")
}

func TestRotateAPIKey(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	tm := a.team()
	works := func(key string, status int) {
		t.Helper()
		code := map[int]string{200: "", 401: "AUTHENTICATION_ERROR"}[status]
		a.do("GET", "/v1/license/sessions", apiKey(key), nil).want(t, status, code)
	}
	old := a.createKey(tm.owner.c, tm.id, map[string]any{"name": "fleet"})
	path := tm.path + "/api-keys/" + old.ApiKey.Id.String()
	r := a.do("POST", path+"/rotate", tm.admin.c, nil)
	second := decode[cloudapi.CreatedApiKey](t, r, 201)
	if got := r.header.Get("Location"); got != tm.path+"/api-keys/"+second.ApiKey.Id.String() || second.ApiKey.Name != "fleet" {
		t.Errorf("location %q, %+v", got, second.ApiKey)
	}
	works(old.Key, 200)
	works(second.Key, 200)
	third := decode[cloudapi.CreatedApiKey](t, a.do("POST", path+"/rotate", tm.admin.c, map[string]any{"expireOldAfterSeconds": 60}), 201)
	a.clock.Advance(time.Minute)
	works(old.Key, 401)
	works(third.Key, 200)
	decode[cloudapi.Empty](t, a.do("DELETE", path, tm.owner.c, nil), 200)
	a.do("POST", path+"/rotate", tm.owner.c, map[string]any{}).want(t, 404, "RESOURCE_NOT_FOUND")
	for _, seconds := range []any{-1, 31536001, 1.5, "60"} {
		a.wrong("POST", path+"/rotate", tm.owner.c, map[string]any{"expireOldAfterSeconds": seconds}).want(t, 400, "VALIDATION_ERROR")
	}
	a.wantRecorded("apiKey.created", "apiKey.rotated", "apiKey.rotated", "apiKey.revoked")
}

func TestCreateAPIKey_ReturnsImage(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	tm := a.team()
	created := a.createKey(tm.owner.c, tm.id, map[string]any{"name": "fleet"})
	if created.KeyLower != strings.ToLower(created.Key) || created.Image == nil ||
		*created.Image != "registry.example.com/"+created.KeyLower+"/local-api" {
		t.Errorf("created %+v", created)
	}
	r := a.do("GET", tm.path+"/connect", tm.member.c, nil)
	guide := decode[cloudapi.ConnectGuide](t, r, 200)
	if guide.CloudUrl != "http://127.0.0.1" || *guide.Image != "registry.example.com/<org-key-lower>/local-api" ||
		!strings.Contains(*guide.DockerCommand, "SVC_CLOUD_URL=http://127.0.0.1 ") || !strings.HasSuffix(*guide.DockerCommand, " "+*guide.Image) ||
		!strings.Contains(*guide.ComposeFile, `SVC_KEY: "`+guide.KeyPlaceholder+`"`) || !strings.Contains(*guide.KubernetesManifest, `image: "`+*guide.Image+`"`) ||
		guide.BinaryCommand != "SVC_KEY=<org-key> SVC_CLOUD_URL=http://127.0.0.1 svc-worker" ||
		!strings.Contains(guide.SourceCommand, "SVC_KEY="+guide.KeyPlaceholder+" ") {
		t.Errorf("guide %+v", guide)
	}
	if strings.Contains(r.body, created.Key) {
		t.Error("the guide has a key")
	}
}
