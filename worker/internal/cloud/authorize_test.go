package cloud_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/certs"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/cloud/report"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

func authorization(profile uuid.UUID) launch.Authorization {
	return launch.Authorization{SessionID: uuid.Must(uuid.NewV7()), ProfileID: &profile}
}

func TestAuthorize_GrantHasSlotAndProfile(t *testing.T) {
	fake, client := newFakeCloud(t)
	locale, password := "de-DE", "secret"
	profile := fake.Profile(156, func(c *cloudapi.ProfileConfig) {
		c.Locale, c.Persist = &locale, true
		c.Viewport = &sharedapi.ScreenSize{Width: 800, Height: 600}
		c.Geolocation = &sharedapi.Geolocation{Latitude: 52.5, Longitude: 13.4}
		c.Permissions = sharedapi.Permissions{"geolocation"}
		c.Record, c.CaCertificates = sharedapi.RecordedParts{"events", "frames"}, sharedapi.CaCertificates{"PEM"}
		c.ClientCertificates = cloudapi.LaunchClientCertificates{{Origin: "https://a.example", Cert: "C", Key: "K"}}
		c.Proxy = &cloudapi.LaunchProxy{Server: "http://proxy.example:3128", Password: &password}
		c.Metadata = sharedapi.Metadata{"team": "checkout"}
		c.IdleTimeoutSeconds, c.MaxDurationSeconds = new(int32(60)), new(int32(0))
	})
	request := authorization(profile)
	grant, err := client.Authorize(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if grant.SlotID == nil {
		t.Error("the slot is missing")
	}
	want := launch.Profile{ID: profile, Name: "Checkout", BrowserVersion: 156, Persist: true, Settings: launch.Settings{
		ClientCertificates: []certs.ClientInput{{Origin: "https://a.example", Cert: "C", Key: "K"}},
		Metadata:           map[string]string{"team": "checkout"},
		Settings: settings.Settings{
			IdleTimeoutSeconds: new(int32(60)), MaxDurationSeconds: new(int32(0)),
			Emulation: settings.Emulation{Locale: locale, Viewport: &settings.Size{Width: 800, Height: 600}},
			Options: settings.Options{
				Geolocation: &settings.Geolocation{Latitude: 52.5, Longitude: 13.4}, Permissions: []string{"geolocation"}, ExtraHTTPHeaders: map[string]string{}, Args: []string{}, StartURLs: []string{},
			},
			Record: []string{"events", "frames"}, CACertificates: []string{"PEM"}, Proxy: &settings.Proxy{Server: "http://proxy.example:3128", Password: password},
		},
	}}
	if diff := cmp.Diff(want, grant.Profile); diff != "" {
		t.Errorf("profile (-want +got):\n%s", diff)
	}
	sent := fake.Calls(cloudtest.Authorize)[0].Authorize
	if sent.MachineId != machine.ID || sent.BootId != machine.BootID || sent.SessionId != request.SessionID {
		t.Errorf("sent %+v", sent)
	}
}

func TestAuthorize_SpecCarriesResolvedVersion(t *testing.T) {
	fake, client := newFakeCloud(t)
	locale := "fr-FR"
	spec := &sharedapi.LaunchSpec{Locale: &locale}
	grant, err := client.Authorize(t.Context(), launch.Authorization{SessionID: uuid.New(), Spec: spec, BrowserVersion: 156})
	if err != nil {
		t.Fatal(err)
	}
	sent := fake.Calls(cloudtest.Authorize)[0].Authorize.Spec
	if sent == nil || *sent.BrowserVersion != 156 || *sent.Locale != locale {
		t.Errorf("sent %+v", sent)
	}
	if spec.BrowserVersion != nil {
		t.Error("the caller's spec was changed")
	}
	if grant.Profile.ID == uuid.Nil || grant.Profile.BrowserVersion != 156 {
		t.Errorf("granted %+v", grant.Profile)
	}
}

func TestAuthorize_RefusalNamesReasonAndField(t *testing.T) {
	const refused = `{"success":true,"data":{"allowed":false,"reason":"%s","current":3,"limit":%s%s}}`
	limit := sharedapi.Limited(3)
	for _, tc := range []struct {
		name, reason, limit, message, field string
		status                              int
		spec                                bool
		constraint                          *sharedapi.Limited
	}{
		{"concurrency", "concurrency_limit", "3", "All slots of the organization are in use.", "profileId", 402, false, &limit},
		{"profiles", "profile_limit", "3", "The organization has reached the profile limit of its plan. Delete a profile or change the plan.", "spec", 402, true, &limit},
		{"profiles, of an older cloud", "profile_limit", "3", "The organization has reached the profile limit of its plan. Delete a profile or change the plan.", "spec", 402, true, &limit},
		{"without a limit", "concurrency_limit", "null", "All slots of the organization are in use.", "profileId", 402, false, nil},
		{"with status 200", "concurrency_limit", "3", "All slots of the organization are in use.", "profileId", 200, false, &limit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake, client := newFakeCloud(t)
			constraint, profileCount := map[string]any{"reason": cloudapi.RefusalReason(tc.reason), "current": int32(3), "limit": tc.constraint}, ""
			if tc.name == "profiles" {
				constraint["profileCount"], profileCount = int32(7), `,"profileCount":7`
			}
			fake.Script(cloudtest.Authorize, cloudtest.JSON(tc.status, fmt.Sprintf(refused, tc.reason, tc.limit, profileCount)))
			request := authorization(fake.Profile(156))
			if tc.spec {
				request = launch.Authorization{SessionID: uuid.New(), Spec: &sharedapi.LaunchSpec{}, BrowserVersion: 156}
			}
			_, err := client.Authorize(t.Context(), request)
			got := assertFault(t, err, fault.PaymentRequired, tc.message)
			want := []fault.Detail{{Field: tc.field, Code: fault.Custom, Message: tc.reason, Constraint: constraint}}
			if diff := cmp.Diff(want, got.Details); diff != "" {
				t.Errorf("details (-want +got):\n%s", diff)
			}
			if full := !client.FullAt().IsZero(); full != (tc.reason == "concurrency_limit") {
				t.Errorf("no slot is free: %t", full)
			}
		})
	}
}

func TestAuthorize_RecordsWhetherSlotsAreFree(t *testing.T) {
	const verdict = `{"success":true,"data":{"allowed":%t,"reason":%s,"slotId":"019a5f3e-b000-7abc-8def-0123456789ab","current":%d,"limit":3}}`
	fake, client := newFakeCloud(t)
	fake.AddKey("svc_other")
	for _, tc := range []struct {
		status int
		answer string
		own    bool
		full   bool
	}{
		{402, fmt.Sprintf(verdict, false, `"concurrency_limit"`, 3), false, false}, // says nothing about the worker's organization
		{200, fmt.Sprintf(verdict, true, "null", 3), true, true},
		{200, fmt.Sprintf(verdict, true, "null", 2), true, false},
		{402, fmt.Sprintf(verdict, false, `"concurrency_limit"`, 3), true, true},
		{503, `{}`, true, true}, // nothing new
	} {
		fake.Script(cloudtest.Authorize, cloudtest.JSON(tc.status, tc.answer))
		request := authorization(fake.Profile(156))
		if !tc.own {
			request.OrganizationKey = session.NewOrganizationKey("svc_other")
		}
		_, _ = client.Authorize(t.Context(), request)
		if full := !client.FullAt().IsZero(); full != tc.full {
			t.Errorf("after %d %s: full %t", tc.status, tc.answer, full)
		}
	}
}

const (
	callFault     = "The cloud cannot be reached."
	invalidAnswer = "The cloud returned an invalid answer."
	notNow        = "The cloud is temporarily unavailable."
	keyRefused    = "The cloud refuses this worker's organization key (SVC_KEY). The operator must replace it."
)

// TestAuthorize_FailsClosed checks that no answer but a valid grant allows a launch
// (specification 3.2).
func TestAuthorize_FailsClosed(t *testing.T) {
	fake, client := newFakeCloud(t)
	profile := uuid.Must(uuid.NewV7())
	for _, tc := range []struct {
		name    string
		answer  cloudtest.Answer
		kind    fault.Kind
		message string
	}{
		{"allowed is missing", cloudtest.JSON(200, `{"success":true,"data":{"current":1,"limit":3,"profileConfig":`+grantOf(profile)+`}}`), fault.Unavailable, invalidAnswer},
		{"allowed is null", cloudtest.JSON(200, `{"success":true,"data":{"allowed":null,"current":1,"limit":3,"profileConfig":`+grantOf(profile)+`}}`), fault.Unavailable, invalidAnswer},
		{"allowed is a text", cloudtest.JSON(200, `{"success":true,"data":{"allowed":"true","current":1,"limit":3}}`), fault.Unavailable, invalidAnswer},
		{"allowed with status 402", cloudtest.JSON(402, `{"success":true,"data":{"allowed":true,"current":1,"limit":3,"profileConfig":`+grantOf(profile)+`}}`), fault.Unavailable, invalidAnswer},
		{"allowed with status 201", cloudtest.JSON(201, `{"success":true,"data":{"allowed":true,"current":1,"limit":3,"profileConfig":`+grantOf(profile)+`}}`), fault.Unavailable, invalidAnswer},
		{"allowed without success", cloudtest.JSON(200, `{"data":{"allowed":true,"current":1,"limit":3,"profileConfig":`+grantOf(profile)+`}}`), fault.Unavailable, invalidAnswer},
		{"allowed in a failure", cloudtest.JSON(200, `{"success":false,"data":{"allowed":true,"current":1,"limit":3,"profileConfig":`+grantOf(profile)+`}}`), fault.Unavailable, invalidAnswer},
		{"allowed with an empty profile", cloudtest.JSON(200, `{"success":true,"data":{"allowed":true,"current":1,"limit":3,"profileConfig":{}}}`), fault.Unavailable, invalidAnswer},
		{"allowed for another profile", cloudtest.JSON(200, `{"success":true,"data":{"allowed":true,"current":1,"limit":3,"profileConfig":`+grantOf(uuid.New())+`}}`), fault.Unavailable, invalidAnswer},
		{"refused without a reason", cloudtest.JSON(402, `{"success":true,"data":{"allowed":false,"current":3,"limit":3}}`), fault.Unavailable, invalidAnswer},
		{"402 with a failure envelope", cloudtest.JSON(402, `{"success":false,"error":{"code":"AUTHORIZATION_ERROR","message":"no"}}`), fault.Unavailable, invalidAnswer},
		{"null", cloudtest.JSON(200, `null`), fault.Unavailable, invalidAnswer},
		{"no JSON", cloudtest.JSON(200, `allowed`), fault.Unavailable, invalidAnswer},
		{"an empty body", cloudtest.JSON(200, ``), fault.Unavailable, invalidAnswer},
		{"a truncated body", cloudtest.Truncated, fault.Unavailable, invalidAnswer},
		{"no content type", cloudtest.Raw(200, "", `{"success":true,"data":{"allowed":true}}`), fault.Unavailable, invalidAnswer},
		{"a page with status 200", cloudtest.Raw(200, "text/html", `<html>Welcome</html>`), fault.Unavailable, invalidAnswer},
		{"a page with status 502", cloudtest.Raw(502, "text/html", `<html>Bad gateway</html>`), fault.Unavailable, invalidAnswer},
		{"204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, fault.Unavailable, invalidAnswer},
		{"a broken connection", cloudtest.Reset, fault.Unavailable, callFault},
		{"500", cloudtest.Failure(fault.Internal, "psql: no"), fault.Unavailable, notNow},
		{"503", cloudtest.Failure(fault.Unavailable, "busy"), fault.Unavailable, notNow},
		{"429", cloudtest.Failure(fault.RateLimited, "too many"), fault.Unavailable, notNow},
		{"401", cloudtest.Failure(fault.Unauthenticated, "The key is invalid."), fault.OwnKeyRefused, keyRefused},
		{"403", cloudtest.Failure(fault.Forbidden, "No."), fault.OwnKeyRefused, keyRefused},
		{"404", cloudtest.Failure(fault.NotFound, "No such profile."), fault.NotFound, "No such profile."},
		{"409", cloudtest.Failure(fault.Conflict, "The session has ended."), fault.Conflict, "The session has ended."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := fake.CallCount(cloudtest.Authorize)
			fake.Script(cloudtest.Authorize, tc.answer)
			grant, err := client.Authorize(t.Context(), authorization(profile))
			assertFault(t, err, tc.kind, tc.message)
			if diff := cmp.Diff(launch.Grant{}, grant); diff != "" {
				t.Errorf("got a grant:\n%s", diff)
			}
			if n := fake.CallCount(cloudtest.Authorize) - before; n != 1 {
				t.Errorf("got %d requests, want one", n)
			}
		})
	}
}

func TestAuthorize_PassesOnValidationDetails(t *testing.T) {
	fake, client := newFakeCloud(t)
	fake.Script(cloudtest.Authorize, cloudtest.Failure(fault.Validation, "The request is not valid.",
		fault.Detail{Field: "spec.locale", Code: fault.InvalidPattern, Message: "is no language", Received: "x", Constraint: map[string]any{"pattern": "^a"}}))
	_, err := client.Authorize(t.Context(), authorization(uuid.New()))
	got := assertFault(t, err, fault.Validation, "The request is not valid.")
	want := []fault.Detail{{Field: "spec.locale", Code: fault.InvalidPattern, Message: "is no language", Received: "x", Constraint: map[string]any{"pattern": "^a"}}}
	if diff := cmp.Diff(want, got.Details); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
}

func TestAuthorize_DistinguishesRevokedKeyFromMissingProfile(t *testing.T) {
	fake, client := newFakeCloud(t)
	_, err := client.Authorize(t.Context(), authorization(uuid.New()))
	assertFault(t, err, fault.NotFound, "No such profile.")
	fake.Revoke(true)
	_, err = client.Authorize(t.Context(), authorization(fake.Profile(156)))
	assertFault(t, err, fault.OwnKeyRefused, keyRefused)
}

func TestAuthorize_WithoutKeyIsRefused(t *testing.T) {
	fake, _ := newFakeCloud(t)
	_, err := newClient(t, fake.URL, "").Authorize(t.Context(), authorization(fake.Profile(156)))
	got := assertFault(t, err, fault.OwnKeyRefused, "This worker has no organization key (SVC_KEY). The operator must set one.")
	if len(got.Details) != 1 || got.Details[0].Field != "SVC_KEY" {
		t.Errorf("details %+v, want one that names SVC_KEY", got.Details)
	}
	if fake.CallCount(cloudtest.Authorize) > 0 {
		t.Error("the cloud got a request without a key")
	}
}

func TestAuthorize_ConnectionRefusedIsUnavailable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + listener.Addr().String()
	_ = listener.Close()
	_, err = newClient(t, address, cloudtest.Key).Authorize(t.Context(), authorization(uuid.New()))
	assertFault(t, err, fault.Unavailable, callFault)
}

func TestAuthorize_TimesOut(t *testing.T) {
	for _, tc := range []struct {
		name string
		call func(ctx context.Context, fake *cloudtest.Cloud, address string) error
	}{
		{"by the client's timeout", func(ctx context.Context, fake *cloudtest.Cloud, _ string) error {
			_, err := newClient(t, fake.URL, cloudtest.Key).Within(50*time.Millisecond).Authorize(ctx, authorization(uuid.New()))
			return err
		}},
		{"by the caller's context", func(ctx context.Context, fake *cloudtest.Cloud, _ string) error {
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, err := newClient(t, fake.URL, cloudtest.Key).Authorize(ctx, authorization(uuid.New()))
			return err
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake := cloudtest.New(t)
			fake.Always(cloudtest.Authorize, cloudtest.Slow(time.Minute))
			began := time.Now()
			err := tc.call(t.Context(), fake, fake.URL)
			assertFault(t, err, fault.Unavailable, callFault)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestAuthorize_KeyIsNotInErrors(t *testing.T) {
	var keys []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("X-API-Key"))
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	client := newClient(t, server.URL, cloudtest.Key)
	_, answered := client.Authorize(t.Context(), authorization(uuid.New()))
	server.Close()
	_, silent := client.Authorize(t.Context(), authorization(uuid.New()))
	if diff := cmp.Diff([]string{cloudtest.Key}, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	for _, err := range []error{answered, silent} {
		if err == nil || strings.Contains(err.Error(), cloudtest.Key) {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestAuthorize_DoesNotFollowRedirects(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("followed to %s with the key %q", r.URL, r.Header.Get("X-API-Key"))
	}))
	defer elsewhere.Close()
	fake, client := newFakeCloud(t)
	fake.Script(cloudtest.Authorize, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	_, err := client.Authorize(t.Context(), authorization(uuid.New()))
	assertFault(t, err, fault.Unavailable, invalidAnswer)
}

func TestAuthorize_CarriesEndsAndReportsFull(t *testing.T) {
	fake, client := newFakeCloud(t)
	fake.Limit(1)
	profile := fake.Profile(156)
	first := authorization(profile)
	if grant, err := client.Authorize(t.Context(), first); err != nil || !grant.Full {
		t.Fatalf("%+v, %v", grant, err)
	}
	next, endedAt := authorization(profile), time.Now().UTC().Truncate(time.Millisecond)
	next.Ends = []launch.Ended{{SessionID: first.SessionID, ProfileID: profile, Status: session.Killed, Reason: session.ByRequest, At: endedAt}}
	if _, err := client.Authorize(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	calls := fake.Calls(cloudtest.Authorize)
	if calls[0].Authorize.Ends != nil {
		t.Errorf("without ends it sent %+v", *calls[0].Authorize.Ends)
	}
	sent := (*calls[1].Authorize.Ends)[0]
	if sent.SessionId != first.SessionID || sent.ProfileId != profile || *sent.Status != cloudapi.EndedStatusKilled ||
		*sent.EndReason != sharedapi.EndReasonKilled || !sent.EndedAt.Equal(endedAt) {
		t.Errorf("sent %+v", sent)
	}
}

func TestAuthorize_WaitsInTheQueueOfTheCloud(t *testing.T) {
	fake, client := newFakeCloud(t)
	fake.Limit(1)
	profile := fake.Profile(156)
	held := authorization(profile)
	if _, err := client.Authorize(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	first, second := authorization(profile), authorization(profile)
	for _, request := range []*launch.Authorization{&first, &second} {
		request.Wait = time.Minute
		grant, err := client.Authorize(t.Context(), *request) // Poll is 0
		refusal := assertFault(t, err, fault.PaymentRequired, "All slots of the organization are in use.")
		if !grant.Queued || len(refusal.Details) != 1 {
			t.Errorf("got %+v, %+v", grant, refusal)
		}
	}
	second.Poll, first.Poll = time.Minute, time.Minute
	served := make(chan launch.Authorization, 2)
	for _, request := range []launch.Authorization{second, first} {
		go func() {
			if _, err := client.Within(10*time.Millisecond).Authorize(t.Context(), request); err != nil { // in addition to Poll
				t.Error(err)
			}
			served <- request
		}()
	}
	ending := held.SessionID
	for _, want := range []uuid.UUID{first.SessionID, second.SessionID} {
		err := client.ReportEnd(t.Context(), report.End{SessionID: ending, ProfileID: profile, Status: "killed", Reason: "idle", At: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		if ending = (<-served).SessionID; ending != want {
			t.Errorf("served %s, want %s", ending, want)
		}
	}
	third := authorization(profile)
	third.Wait, third.Poll = 100*time.Millisecond, 100*time.Millisecond
	if grant, err := client.Authorize(t.Context(), third); grant.Queued || !fault.Is(err, fault.PaymentRequired) {
		t.Errorf("got %+v, %v", grant, err)
	}
}

func TestAuthorize_RefusalKeepsRetryAfter(t *testing.T) {
	fake, client := newFakeCloud(t)
	fake.Script(cloudtest.Authorize, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		cloudtest.JSON(402, `{"success":true,"data":{"allowed":false,"reason":"concurrency_limit","current":3,"limit":3}}`)(w, nil)
	})
	_, err := client.Authorize(t.Context(), authorization(fake.Profile(156)))
	if got := assertFault(t, err, fault.PaymentRequired, "All slots of the organization are in use."); got.RetryAfter != 7*time.Second {
		t.Errorf("retry after %v", got.RetryAfter)
	}
}

func TestVerifyKey(t *testing.T) {
	fake, client := newFakeCloud(t)
	if err := client.VerifyKey(t.Context(), session.NewOrganizationKey(cloudtest.Key)); err != nil {
		t.Error(err)
	}
	err := client.VerifyKey(t.Context(), session.NewOrganizationKey("svc_other"))
	assertFault(t, err, fault.Unauthenticated, "The organization key is not valid.")
	err = client.VerifyKey(t.Context(), session.NewOrganizationKey("wrk_other"))
	assertFault(t, err, fault.Unauthenticated, "The key is a worker key and not that of this worker. Launches need an organization key (svc_, from the dashboard).")
	fake.Down(true)
	err = client.VerifyKey(t.Context(), session.NewOrganizationKey(cloudtest.Key))
	assertFault(t, err, fault.Unavailable, "The cloud cannot be reached.")
}
