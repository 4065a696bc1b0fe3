package e2e

import (
	"archive/zip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func (a *acceptance) activeOrganization(t *testing.T) {
	user, email, _ := a.signUp(t)
	user.get(t, "/v1/profiles").requireError(t, 400, "VALIDATION_ERROR", "activeOrganizationId REQUIRED")
	a.verify(t, email)
	first, _, _ := a.organization(t, user)
	second, _, _ := a.organization(t, user)
	for _, call := range [][3]string{
		{"POST", "/api-keys", `{"name":"fleet"}`}, {"GET", "/api-keys", ""}, {"GET", "/members", ""}, {"PATCH", "", `{"name":"Another"}`},
	} {
		answer := user.do(t, call[0], "/v1/organizations/"+first+call[1], call[2]).requireError(t, 409, "RESOURCE_CONFLICT", "organizationId CUSTOM")
		answer.requireValue(t, "error.details.0.constraint.activeOrganizationId", strconv.Quote(second))
	}
	user.post(t, "/v1/organizations/"+first+"/activate", "").requireStatus(t, 200)
	key := user.post(t, "/v1/organizations/"+first+"/api-keys", `{"name":"fleet"}`).requireStatus(t, 201).text("data.key")
	profile := user.post(t, "/v1/profiles", fmt.Sprintf(`{"name":"Of the first","browserVersion":%d}`, a.version)).requireStatus(t, 201).text("data.id")
	a.cloud.with("X-API-Key", key).get(t, "/v1/profiles/"+profile+"/config").requireStatus(t, 200)
}

// authorize requests a slot, as a worker does.
func (a *acceptance) authorize(t *testing.T, key, session, selector string) response {
	t.Helper()
	return a.cloud.with("X-API-Key", key).post(t, "/v1/license/authorize",
		fmt.Sprintf(`{"machineId":"acceptance","bootId":%q,"sessionId":%q,%s}`, uuid.Nil, session, selector))
}

func (a *acceptance) profileLimit(t *testing.T) {
	user, _, _ := a.signUp(t)
	_, key, _ := a.organization(t, user)
	var profile string
	for i := range freeSlots {
		profile = user.post(t, "/v1/profiles", fmt.Sprintf(`{"name":"Profile %d","browserVersion":%d}`, i, a.version)).requireStatus(t, 201).text("data.id")
	}
	spec := fmt.Sprintf(`"spec":{"browserVersion":%d}`, a.version)
	a.authorize(t, key, uuid.NewString(), `"profileId":"`+profile+`"`).requireStatus(t, 200).requireValue(t, "data.current", "1")
	refusal := a.authorize(t, key, uuid.NewString(), spec).requireStatus(t, 402)
	for path, want := range map[string]string{"allowed": "false", "reason": `"profile_limit"`, "current": "1", "limit": "3", "profileCount": "3"} {
		refusal.requireValue(t, "data."+path, want)
	}
	a.launchSocket(t, fmt.Sprintf(`{"SVC_KEY":%q,%s}`, key, spec)).requireError(t, 402, "AUTHORIZATION_ERROR", "spec CUSTOM").
		requireValue(t, "error.details.0.constraint", `{"current":1,"limit":3,"profileCount":3,"reason":"profile_limit"}`)
}

func (a *acceptance) errorDetails(t *testing.T) {
	text, large := a.owner.with("Content-Type", "text/plain"), `{"name":"`+strings.Repeat("a", 1<<20)+`"}`
	a.cloud.do(t, "DELETE", "/v1/plans", "").requireError(t, 405, "VALIDATION_ERROR", "method")
	text.post(t, "/v1/profiles", `{}`).requireError(t, 415, "VALIDATION_ERROR", "contentType")
	a.owner.post(t, "/v1/profiles", large).requireError(t, 413, "VALIDATION_ERROR", "body TOO_LONG")
	a.owner.post(t, "/v1/profiles", `{"name":`).requireError(t, 400, "VALIDATION_ERROR", "body")
	a.anonymous.do(t, "DELETE", "/health", "").requireError(t, 405, "VALIDATION_ERROR", "method")
	a.worker.with("Content-Type", "text/plain").post(t, "/sessions/profile", `{}`).requireError(t, 415, "VALIDATION_ERROR", "contentType")
	larger := `{"name":"` + strings.Repeat("a", 32<<20) + `"}` // x-max-body of the operation
	a.worker.post(t, "/sessions/profile", larger).requireError(t, 413, "VALIDATION_ERROR", "body TOO_LONG")
	a.launchSocket(t, `{"SVC_KEY":`).requireError(t, 400, "VALIDATION_ERROR", "env")
}

func (a *acceptance) receivedValues(t *testing.T) {
	wrong := func(field, value string) response {
		return a.owner.post(t, "/v1/profiles", fmt.Sprintf(`{"name":"x","browserVersion":%d,%q:%s}`, a.version, field, value))
	}
	wrong("notes", `[1,{"a":2}]`).requireError(t, 400, "VALIDATION_ERROR", "notes INVALID_TYPE").requireValue(t, "error.details.0.received", `[1,{"a":2}]`)
	wrong("tags", `{"a":1}`).requireError(t, 400, "VALIDATION_ERROR", "tags INVALID_TYPE").requireValue(t, "error.details.0.received", `{"a":1}`)
	long := wrong("notes", strconv.Quote(strings.Repeat("a", 10_001))).requireError(t, 400, "VALIDATION_ERROR", "notes TOO_LONG").text("error.details.0.received")
	if long != strings.Repeat("a", 1000)+"…" {
		t.Errorf("received is %d bytes long: %s", len(long), long)
	}
	a.owner.get(t, "/v1/profiles?colour=red").requireError(t, 400, "VALIDATION_ERROR", "colour UNRECOGNIZED_KEY").requireValue(t, "error.details.0.received", `"red"`)
	secret := strings.Repeat("s3cret", 50)
	answer := wrong("proxy", fmt.Sprintf(`{"server":"http://proxy.example.com:3128","password":%q}`, secret)).
		requireError(t, 400, "VALIDATION_ERROR", "proxy.password TOO_LONG")
	if answer.value("error.details.0.received") != nil || strings.Contains(answer.body, "s3cret") {
		t.Errorf("the response contains the password: %s", answer.body)
	}
}

func (a *acceptance) catalogDownloads(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "build.zip")
	file, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := zip.NewWriter(file)
	entry, err := w.Create("chrome/chrome")
	if err == nil {
		_, err = io.WriteString(entry, "a browser")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	add := func(version, system, processor string) {
		a.runOperatorCommand(t, "releases", "add", archive, "--version", version, "--os", system, "--arch", processor)
	}
	named := func(query, part string) {
		t.Helper()
		answer := a.fleet.get(t, "/v1/chromium/releases/"+query).requireStatus(t, 200)
		if found := answer.header.Get("Content-Disposition"); !strings.Contains(found, part) {
			t.Errorf("%s returned %s, want the build for %s", query, found, part)
		}
	}
	add("150.0.1.1", "macos", "arm64")
	named("150.0.1.1/download", "macos-arm64")
	add("150.0.1.1", "windows", "x86_64")
	a.fleet.get(t, "/v1/chromium/releases/150.0.1.1/download").requireError(t, 400, "VALIDATION_ERROR", "os", "arch")
	named("150.0.1.1/download?os=windows", "windows-x86_64")
	add("150.0.1.1", "linux", "x86_64")
	named("150.0.1.1/download", "linux-x86_64")
	if answer := a.fleet.do(t, "HEAD", "/v1/chromium/releases/150.0.1.1/download", "").requireStatus(t, 200); answer.body != "" {
		t.Error("HEAD has a body")
	}
}

func (a *acceptance) unions(t *testing.T) {
	spec := fmt.Sprintf(`"spec":{"browserVersion":%d}`, a.version)
	a.authorize(t, a.demo.organizationKey, uuid.NewString(), fmt.Sprintf(`"profileId":%q,%s`, a.profile, spec)).
		requireError(t, 400, "VALIDATION_ERROR", "profileId INVALID_UNION")
	a.worker.post(t, "/sessions/profile", fmt.Sprintf(`{"profileId":%q,%s}`, a.profile, spec)).
		requireError(t, 400, "VALIDATION_ERROR", "profileId INVALID_UNION")
	for _, field := range []string{"args", "permissions", "startUrls"} {
		empty := fmt.Sprintf(`"spec":{"browserVersion":%d,%q:[]}`, a.version, field)
		a.authorize(t, a.demo.organizationKey, uuid.NewString(), empty).requireError(t, 400, "VALIDATION_ERROR", "spec."+field+" ARRAY_TOO_SHORT")
		a.worker.post(t, "/sessions/profile", `{`+empty+`}`).requireError(t, 400, "VALIDATION_ERROR", "spec."+field+" ARRAY_TOO_SHORT")
	}
	a.owner.post(t, "/v1/profiles", fmt.Sprintf(`{"name":"x","browserVersion":%d,"tags":[]}`, a.version)).
		requireError(t, 400, "VALIDATION_ERROR", "tags ARRAY_TOO_SHORT")
}

func (a *acceptance) remainingQuota(t *testing.T) {
	stats := a.owner.get(t, "/v1/profiles/stats").requireStatus(t, 200)
	for _, unit := range []string{"apiRpm", "apiRph"} {
		limit, used, left := stats.number("data."+unit+"Limit"), stats.number("data."+unit+"Used"), stats.number("data."+unit+"Remaining")
		if used < 1 || left != max(0, limit-used) {
			t.Errorf("%s: %d of %d used, %d remaining", unit, used, limit, left)
		}
	}
	header := a.owner.get(t, "/v1/profiles").requireStatus(t, 200).header
	left, err := strconv.Atoi(header.Get("X-RateLimit-Remaining"))
	reset, resetErr := strconv.ParseInt(header.Get("X-RateLimit-Reset"), 10, 64)
	if header.Get("X-RateLimit-Limit") != "60" || err != nil || left < 0 || left > 60 || resetErr != nil || time.Until(time.Unix(reset, 0)) > time.Minute {
		t.Errorf("headers: %v", header)
	}
}

// workerRequests sends requests that the worker sends, too. Other tests check that the
// worker does: TestLaunch_ReadsTheConfigurationThatAGrantLeavesOut and
// TestWorker_ReclaimsStaleSessionsAtStart.
func (a *acceptance) workerRequests(t *testing.T) {
	config := a.fleet.get(t, "/v1/profiles/"+a.profile+"/config").requireStatus(t, 200)
	config.requireValue(t, "data.profileId", strconv.Quote(a.profile))
	config.requireValue(t, "data.browserVersion", strconv.Itoa(a.version))
	reclaimed := a.fleet.post(t, "/v1/license/sessions/reclaim", "").requireStatus(t, 200)
	reclaimed.requireValue(t, "data.released", "0") // running sessions are not stale
	reclaimed.requireValue(t, "data.limit", "3")
}

func (a *acceptance) profileCounts(t *testing.T) {
	var before response
	eventually(t, 10*time.Second, "the profiles of earlier specs are deleted", func() error {
		if before = a.owner.get(t, "/v1/profiles/stats").requireStatus(t, 200); before.number("data.ephemeralProfiles") != 0 {
			return fmt.Errorf("the statistics are %s", before.body)
		}
		return nil
	})
	a.launch(t, fmt.Sprintf(`{"spec":{"browserVersion":%d}}`, a.version))
	during, list := a.owner.get(t, "/v1/profiles/stats").requireStatus(t, 200), a.owner.get(t, "/v1/profiles").requireStatus(t, 200)
	during.requireValue(t, "data.ephemeralProfiles", "1")
	if total := during.number("data.totalProfiles"); total != before.number("data.totalProfiles") || total != list.number("data.pagination.total") {
		t.Errorf("%d profiles in total, %d before, %d in the list", total, before.number("data.totalProfiles"), list.number("data.pagination.total"))
	}
}

func (a *acceptance) runningSessionSurvives(t *testing.T) {
	document := a.cloud.get(t, "/openapi.json").requireStatus(t, 200)
	operations, _ := document.value("paths").(map[string]any)
	operation, _ := operations["/v1/profiles/{profileId}/sessions"].(map[string]any)
	start, _ := operation["post"].(map[string]any)
	if text, _ := start["description"].(string); !strings.Contains(strings.Join(strings.Fields(text), " "), "already handed to the client, keep it running") {
		t.Errorf("the description of the start of a session is %q", text)
	}

	user, _, _ := a.signUp(t)
	_, key, _ := a.organization(t, user)
	fleet := a.cloud.with("X-API-Key", key)
	profile := user.post(t, "/v1/profiles", fmt.Sprintf(`{"name":"x","browserVersion":%d}`, a.version)).requireStatus(t, 201).text("data.id")
	var sessions []string
	begin := func(seq int) response {
		sessions = append(sessions, uuid.NewString())
		return fleet.post(t, "/v1/profiles/"+profile+"/sessions", fmt.Sprintf(
			`{"sessionId":%q,"machineId":"acceptance","bootId":%q,"seq":%d,"launchId":%q,"browserVersion":%d,"startedAt":%q}`,
			sessions[len(sessions)-1], uuid.Nil, seq, uuid.NewString(), a.version, time.Now().UTC().Format(time.RFC3339)))
	}
	for i := range freeSlots {
		begin(i+1).requireStatus(t, 201)
	}
	begin(freeSlots+1).requireError(t, 402, "AUTHORIZATION_ERROR", "profileId CUSTOM").requireValue(t, "error.details.0.constraint.reason", `"concurrency_limit"`)
	beat := fleet.post(t, "/v1/license/sessions/heartbeat", fmt.Sprintf(
		`{"machineId":"acceptance","bootId":%q,"seq":%d,"sessions":["%s"]}`, uuid.Nil, freeSlots+2, strings.Join(sessions[:freeSlots], `","`))).requireStatus(t, 200)
	if accepted, _ := beat.value("data.accepted").([]any); len(accepted) != freeSlots {
		t.Errorf("not all running sessions are counted: %s", beat.body)
	}
	fleet.get(t, "/v1/license/sessions").requireStatus(t, 200).requireValue(t, "data.runningSessions", "3")
}

func (a *acceptance) operatorCommands(t *testing.T) {
	user, email, password := a.signUp(t)
	org, key, keyID := a.organization(t, user)
	spec := fmt.Sprintf(`"spec":{"browserVersion":%d}`, a.version)
	if listed := a.runOperatorCommand(t, "organizations", "list"); !strings.Contains(listed, org) || !strings.Contains(listed, a.org) {
		t.Errorf("organizations list printed:\n%s", listed)
	}
	if output := a.runOperatorCommand(t, "organizations", "show", org); !strings.Contains(output, email) || !strings.Contains(output, keyID) {
		t.Errorf("organizations show printed:\n%s", output)
	}
	a.runOperatorCommand(t, "organizations", "plan", org, "team")
	user.get(t, "/v1/profiles/stats").requireStatus(t, 200).requireValue(t, "data.profileLimit", "50")
	a.runOperatorCommand(t, "organizations", "suspend", org, "--reason", "acceptance")
	a.authorize(t, key, uuid.NewString(), spec).requireStatus(t, 402).requireValue(t, "data.allowed", "false")
	a.runOperatorCommand(t, "organizations", "resume", org)
	a.authorize(t, key, uuid.NewString(), spec).requireStatus(t, 200).requireValue(t, "data.allowed", "true")
	a.runOperatorCommand(t, "keys", "revoke", keyID)
	a.authorize(t, key, uuid.NewString(), spec).requireError(t, 401, "AUTHENTICATION_ERROR")
	if listed := a.runOperatorCommand(t, "users", "list", "--search", email); !strings.Contains(listed, email) {
		t.Errorf("users list printed:\n%s", listed)
	}
	a.runOperatorCommand(t, "users", "disable", email)
	user.get(t, "/v1/auth/session").requireError(t, 401, "AUTHENTICATION_ERROR")
	a.cloud.post(t, "/v1/auth/sign-in", fmt.Sprintf(`{"email":%q,"password":%q}`, email, password)).requireError(t, 403, "AUTHORIZATION_ERROR")
	a.runOperatorCommand(t, "users", "enable", email)
	link := mailedToken.FindStringSubmatch(a.runOperatorCommand(t, "users", "reset-password", email))
	if link == nil {
		t.Fatal("reset-password printed no link")
	}
	a.cloud.post(t, "/v1/auth/password/reset", fmt.Sprintf(`{"token":%q,"password":"a password of operators"}`, link[1])).requireStatus(t, 200)
	user = a.signIn(t, email, "a password of operators")
	events := user.get(t, "/v1/audit-events?limit=100").requireStatus(t, 200)
	items, _ := events.value("data.items").([]any)
	var by int
	for i := range items {
		if events.text(fmt.Sprintf("data.items.%d.actor.type", i)) == "operator" {
			by++
		}
	}
	if by < 4 { // the plan, the suspension, its end, the key
		t.Errorf("%d audit events are of the operator, want 4: %s", by, events.body)
	}
}

func (a *acceptance) manyOrganizations(t *testing.T) {
	user, email, _ := a.signUp(t)
	a.organization(t, user)
	user.post(t, "/v1/organizations", `{"name":"Second"}`).requireError(t, 403, "AUTHORIZATION_ERROR", "email CUSTOM").
		requireValue(t, "error.details.0.constraint", `{"current":1,"limit":1}`)
	a.verify(t, email)
	created := 1
	for i := 2; i <= 21; i++ {
		answer := user.post(t, "/v1/organizations", fmt.Sprintf(`{"name":"Organization %d"}`, i))
		if answer.status == http.StatusCreated {
			created++
			continue
		}
		answer.requireError(t, 403, "AUTHORIZATION_ERROR", "freeOrganizations CUSTOM").requireValue(t, "error.details.0.constraint", `{"current":3,"limit":3}`)
	}
	if created != 3 {
		t.Errorf("a user created %d free organizations, want 3", created)
	}
	org := user.get(t, "/v1/auth/session").requireStatus(t, 200).text("data.activeOrganizationId")
	listed := user.get(t, "/v1/organizations/"+org+"/api-keys").requireStatus(t, 200).number("data.pagination.total")
	for range 50 - listed {
		user.post(t, "/v1/organizations/"+org+"/api-keys", `{"name":"fleet"}`).requireStatus(t, 201)
	}
	user.post(t, "/v1/organizations/"+org+"/api-keys", `{"name":"fleet"}`).requireError(t, 403, "AUTHORIZATION_ERROR").
		requireValue(t, "error.details.0.constraint", `{"current":50,"limit":50}`)
}
