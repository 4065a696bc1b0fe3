package rest_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/cloudapi"
)

func TestAKeyFromCreationToRevocation(t *testing.T) {
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
	list := decode[cloudapi.ApiKeyList](t, a.do("GET", path+"?sortBy=lastUsedAt", me, nil), 200)
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

func TestAnExpiredKeyIsRefused(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	me := bearer(a.signUp("ada@example.com").Token)
	orgID := a.createOrg(me, "Engines").Id
	expires := a.clock.Now().Add(time.Hour)
	key := a.createKey(me, orgID, map[string]any{"name": "fleet", "expiresAt": expires}).Key
	a.do("GET", "/v1/license/sessions", apiKey(key), nil).want(t, 200, "")
	a.clock.Advance(time.Hour)
	a.do("GET", "/v1/license/sessions", apiKey(key), nil).want(t, 401, "AUTHENTICATION_ERROR")
}

func TestWorkerOperationsTakeNothingButAKey(t *testing.T) {
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

func TestCreateApiKeyRefuses(t *testing.T) {
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

func TestPlansArePublic(t *testing.T) {
	a := newAccounts(t, "http://127.0.0.1")
	list := decode[cloudapi.PlanList](t, a.do("GET", "/v1/plans", nil, nil), 200)
	if len(list.Items) != 5 || list.Items[0].Slug != "free" || *list.Items[0].ProfileLimit != 3 || list.Items[4].ProfileLimit != nil {
		t.Errorf("plans %+v", list.Items)
	}
}
