package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// TestSecrets_ValuesOnlyForWorkers sends passwords and TOTP seeds in valid and in invalid
// requests, and searches for them in all answers to users, in all refusals, in the log and
// in the audit log.
func TestSecrets_ValuesOnlyForWorkers(t *testing.T) {
	const password, seed = "hunter2 hunter2", "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
	search := newLeakSearch(t, password, seed)
	v, other := search.tenant(), search.tenant()
	for _, each := range []tenant{v, other} {
		search.all.MustExec(each.fill(`UPDATE license_slots SET state = 'running' WHERE session_id = '{sessionId}'`))
	}
	values := `"password": "` + password + `", "totpSeed": "` + seed + `"`
	body := `{"name": "shop", ` + values + `, "origins": ["https://shop.example.com"], "profileIds": ["` + v["profileId"] + `"]}`
	var created struct{ Data struct{ ID uuid.UUID } }
	text := search.ask(v, "admin", "POST", "/v1/secrets", body, http.StatusCreated)
	if err := json.Unmarshal([]byte(text), &created); err != nil || !strings.Contains(text, `"hasPassword":true,"hasTotp":true`) {
		t.Fatalf("%v: %s", err, text)
	}
	secret := "/v1/secrets/" + created.Data.ID.String()
	search.ask(v, "member", "GET", "/v1/secrets", "", http.StatusOK)
	search.ask(v, "member", "GET", secret, "", http.StatusOK)
	search.ask(v, "owner", "PATCH", secret, `{`+values+`}`, http.StatusOK)
	search.ask(v, "owner", "POST", "/v1/secrets", body, http.StatusConflict)
	search.ask(v, "owner", "PATCH", secret, v.fill(`{"name": "login-{mark}"}`), http.StatusConflict)
	search.ask(v, "owner", "PATCH", secret, other.fill(`{"profileIds": ["{profileId}"]}`), http.StatusNotFound)
	search.ask(v, "owner", "POST", "/v1/secrets", strings.ReplaceAll(body, v["profileId"], other["profileId"]), http.StatusNotFound)
	for _, user := range []string{"member", ""} { // "" is the key of a worker
		want := map[string]int{"member": http.StatusForbidden, "": http.StatusUnauthorized}[user]
		search.ask(v, user, "POST", "/v1/secrets", body, want)
		search.ask(v, user, "PATCH", secret, `{`+values+`}`, want)
		search.ask(v, user, "DELETE", secret, "", want)
	}
	for _, damaged := range []string{
		strings.Replace(body, "https:", "http:", 1), strings.Replace(body, "shop", created.Data.ID.String(), 1), strings.Replace(body, `"password"`, `"passwords"`, 1),
		strings.Replace(body, seed, seed+"!", 1), strings.Replace(body, password, strings.Repeat(password, 100), 1), strings.Replace(body, `"`+password+`"`, `["`+password+`"]`, 1),
		strings.Replace(body, `"`+seed+`"`, `{"x": "`+seed+`"}`, 1), strings.Replace(body, seed, "otpauth://hotp/x?secret="+seed, 1), `{"password": "` + password + `"`,
	} {
		search.ask(v, "owner", "POST", "/v1/secrets", damaged, http.StatusBadRequest)
	}

	use := func(session, field, origin string) string {
		return `{"sessionId": "` + session + `", "field": "` + field + `", "origin": "` + origin + `"}`
	}
	const origin = "https://shop.example.com"
	for field, value := range map[string]string{"password": `"value":"` + password + `"`, "totp": `"validUntil":"20`} {
		if text := search.ask(v, "", "POST", "/v1/secrets/shop/use", use(v["sessionId"], field, origin), http.StatusOK); !strings.Contains(text, value) {
			t.Errorf("the worker got %s", text)
		}
	}
	search.ask(v, "owner", "POST", "/v1/secrets/shop/use", use(v["sessionId"], "password", origin), http.StatusUnauthorized)
	search.ask(other, "", "POST", secret+"/use", use(other["sessionId"], "password", origin), http.StatusNotFound)
	search.ask(v, "", "POST", secret+"/use", use(other["sessionId"], "password", origin), http.StatusConflict)
	search.ask(v, "", "POST", secret+"/use", use(v["sessionId"], "password", "https://evil.example.com"), http.StatusForbidden)
	search.ask(v, "", "POST", secret+"/use", use(v["sessionId"], "username", origin), http.StatusBadRequest)
	events := search.ask(v, "owner", "GET", "/v1/audit-events", "", http.StatusOK)
	if strings.Count(events, `"secret.used"`) != 2 || strings.Count(events, `"type":"key"`) != 2 {
		t.Errorf("the audit log: %s", events)
	}
	search.ask(v, "owner", "DELETE", secret, "", http.StatusOK)
	search.checkLog()
}
