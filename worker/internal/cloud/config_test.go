package cloud_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// grantOf returns a profile's launch configuration in JSON.
func grantOf(id uuid.UUID) string {
	return fmt.Sprintf(`{"profileId":%q,"name":"n","browserVersion":156}`, id)
}

func TestAuthorize_GrantWithoutConfigLeavesProfileEmpty(t *testing.T) {
	fake, client := newFakeCloud(t)
	profile, slot := fake.Profile(156), uuid.New()
	bare := cloudtest.JSON(200, `{"success":true,"data":{"allowed":true,"current":1,"limit":3,"slotId":"`+slot.String()+`"}}`)
	fake.Script(cloudtest.Authorize, bare, bare)
	grant, err := client.Authorize(t.Context(), authorization(profile))
	if err != nil || grant.SlotID == nil || *grant.SlotID != slot || grant.Profile.ID != uuid.Nil {
		t.Errorf("granted %+v, %v", grant, err)
	}
	version := sharedapi.BrowserVersion(156)
	_, err = client.Authorize(t.Context(), launch.Authorization{SessionID: uuid.New(), Spec: &sharedapi.LaunchSpec{BrowserVersion: &version}, BrowserVersion: 156})
	assertFault(t, err, fault.Unavailable, "The cloud returned an invalid answer.") // only the grant contains the profile of a spec
}

func TestProfile_ReadsLaunchConfiguration(t *testing.T) {
	fake, client := newFakeCloud(t)
	locale := "de-DE"
	id := fake.Profile(156, func(c *cloudapi.ProfileConfig) { c.Locale = &locale })
	found, err := client.Profile(t.Context(), session.OrganizationKey{}, id)
	if err != nil || found.ID != id || found.BrowserVersion != 156 || found.Settings.Locale != locale {
		t.Errorf("read %+v, %v", found, err)
	}
}

func TestAuthorize_ReadsNetworkRulesOfOrganization(t *testing.T) {
	fake, client := newFakeCloud(t)
	id := fake.Profile(156)
	fake.OrganizationNetwork(&sharedapi.StoredNetworkRules{Connect: &sharedapi.ConnectionFilter{Deny: &sharedapi.HostPatterns{"10.0.0.0/8"}}})
	version := sharedapi.BrowserVersion(156)
	byProfile, err := client.Authorize(t.Context(), authorization(id))
	bySpec, specErr := client.Authorize(t.Context(), launch.Authorization{SessionID: uuid.New(), Spec: &sharedapi.LaunchSpec{BrowserVersion: &version}, BrowserVersion: 156})
	read, readErr := client.Profile(t.Context(), session.OrganizationKey{}, id)
	if err := errors.Join(err, specErr, readErr); err != nil {
		t.Fatal(err)
	}
	want := &netrules.Rules{Connect: &netrules.Filter{Deny: []string{"10.0.0.0/8"}}}
	for name, profile := range map[string]launch.Profile{"profile": byProfile.Profile, "spec": bySpec.Profile, "config": read} {
		if diff := cmp.Diff(want, profile.OrganizationNetwork); diff != "" || profile.Settings.Network != nil {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestProfile_FailsClosed(t *testing.T) {
	fake, client := newFakeCloud(t)
	id := fake.Profile(156)
	for _, tc := range []struct {
		name    string
		answer  cloudtest.Answer
		kind    fault.Kind
		message string
	}{
		{"another profile", cloudtest.JSON(200, `{"success":true,"data":`+grantOf(uuid.New())+`}`), fault.Unavailable, "The cloud returned an invalid answer."},
		{"nothing", cloudtest.JSON(200, `{"success":true,"data":{}}`), fault.Unavailable, "The cloud returned an invalid answer."},
		{"404", cloudtest.Failure(fault.NotFound, "No such profile."), fault.NotFound, "No such profile."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake.Script(cloudtest.Config, tc.answer)
			_, err := client.Profile(t.Context(), session.OrganizationKey{}, id)
			assertFault(t, err, tc.kind, tc.message)
		})
	}
	fake.Down(true)
	_, err := client.Profile(t.Context(), session.OrganizationKey{}, id)
	assertFault(t, err, fault.Unavailable, "The cloud cannot be reached.")
}

func TestCountStale_CountsOnlyThisMachine(t *testing.T) {
	fake, client := newFakeCloud(t)
	fake.AddStaleSession("worker-2")
	if n, err := client.CountStale(t.Context()); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	fake.AddStaleSession(machine.ID)
	if n, err := client.CountStale(t.Context()); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := client.Reclaim(t.Context()); n != 2 || err != nil {
		t.Errorf("%d reclaimed, %v", n, err)
	}
	fake.Down(true)
	if _, err := client.CountStale(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("without a cloud: %v", err)
	}
}
