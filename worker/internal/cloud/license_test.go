package cloud_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/cloud"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

func assertLicense(t *testing.T, client *cloud.Client, want cloud.LicenseState) {
	t.Helper()
	if got := client.License(); got != want {
		t.Errorf("the license is %s, want %s", got, want)
	}
}

func TestLicense_IsLastAnswerToOwnKey(t *testing.T) {
	fake, client := newFakeCloud(t)
	beat := func() error {
		_, err := client.Heartbeat(t.Context(), session.OrganizationKey{}, 1, nil)
		return err
	}
	assertLicense(t, client, cloud.LicenseUnreachable) // no call was made yet
	if err := client.CheckContract(t.Context()); err != nil {
		t.Fatal(err)
	}
	assertLicense(t, client, cloud.LicenseUnreachable) // no call with the key was made yet
	if err := beat(); err != nil {
		t.Fatal(err)
	}
	assertLicense(t, client, cloud.LicenseOK)
	accepted := client.LastAnswerAt()
	if accepted.IsZero() {
		t.Error("LastAnswerAt is zero")
	}
	fake.Revoke(true)
	assertFault(t, beat(), fault.OwnKeyRefused, keyRefused)
	assertLicense(t, client, cloud.LicenseKeyRefused)
	if got := client.LastAnswerAt(); !got.Equal(accepted) {
		t.Errorf("a refused key changed the time of the last answer from %v to %v", accepted, got)
	}
	fake.Revoke(false)
	if _, err := client.Authorize(t.Context(), authorization(uuid.New())); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown profile: %v", err)
	}
	assertLicense(t, client, cloud.LicenseOK) // a refusal of the request is an answer
	for _, answer := range []cloudtest.Answer{
		cloudtest.Failure(fault.Internal, "no"), cloudtest.Failure(fault.Unavailable, "no"), cloudtest.Reset, cloudtest.JSON(200, "{}x"),
	} {
		fake.Script(cloudtest.Heartbeat, answer)
		if err := beat(); err == nil {
			t.Error("no error")
		}
		assertLicense(t, client, cloud.LicenseUnreachable)
		if err := beat(); err != nil {
			t.Error(err)
		}
		assertLicense(t, client, cloud.LicenseOK)
	}
	fake.SetContractVersion("2.0.0")
	if err := beat(); err == nil {
		t.Error("an answer of another major version was accepted")
	}
	assertLicense(t, client, cloud.LicenseIncompatible)
	fake.SetContractVersion("1.0.0")
	if err := beat(); err != nil {
		t.Error(err)
	}
	assertLicense(t, client, cloud.LicenseOK)
}

func TestLicense_FailedCallTriggersOnFailure(t *testing.T) {
	fake, client := newFakeCloud(t)
	calls := 0
	client.OnFailure(func() { calls++ })
	if _, err := client.Heartbeat(t.Context(), session.OrganizationKey{}, 1, nil); err != nil {
		t.Fatal(err)
	}
	fake.Always(cloudtest.Authorize, cloudtest.Reset)
	for range 3 { // only a change from ok calls OnFailure
		_, _ = client.Authorize(t.Context(), authorization(uuid.New()))
	}
	assertLicense(t, client, cloud.LicenseUnreachable)
	if calls != 1 {
		t.Errorf("OnFailure was called %d times, want once", calls)
	}
	if _, err := client.Heartbeat(t.Context(), session.OrganizationKey{}, 2, nil); err != nil {
		t.Fatal(err)
	}
	fake.Script(cloudtest.Heartbeat, cloudtest.Reset)
	_, _ = client.Heartbeat(t.Context(), session.OrganizationKey{}, 3, nil)
	if calls != 1 {
		t.Error("a failed heartbeat called OnFailure")
	}
}

func TestLicense_IgnoresCallerKeysAndCanceledCalls(t *testing.T) {
	fake, client := newFakeCloud(t)
	fake.AddKey(other)
	if _, err := client.Heartbeat(t.Context(), session.OrganizationKey{}, 1, nil); err != nil {
		t.Fatal(err)
	}
	request := authorization(fake.Profile(156))
	request.OrganizationKey = session.NewOrganizationKey(other)
	for _, answer := range []cloudtest.Answer{cloudtest.Failure(fault.Unauthenticated, "no"), cloudtest.Failure(fault.Unavailable, "slow"), cloudtest.Reset} {
		fake.Script(cloudtest.Authorize, answer)
		if _, err := client.Authorize(t.Context(), request); err == nil {
			t.Error("got a grant, want a refusal")
		}
		assertLicense(t, client, cloud.LicenseOK)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := client.Authorize(gone, authorization(uuid.New())); err == nil {
		t.Error("got a grant for a canceled call")
	}
	assertLicense(t, client, cloud.LicenseOK)
}

func TestLicense_WithoutAKey(t *testing.T) {
	fake := cloudtest.New(t)
	client := newClient(t, fake.URL, "")
	assertLicense(t, client, cloud.LicenseUnreachable)
	if err := client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	assertLicense(t, client, cloud.LicenseNoKey)
	if client.LastAnswerAt().IsZero() {
		t.Error("LastAnswerAt is zero")
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	client = newClient(t, gone.URL, "")
	assertFault(t, client.Ping(t.Context()), fault.Unavailable, callFault)
	assertLicense(t, client, cloud.LicenseUnreachable)
}
