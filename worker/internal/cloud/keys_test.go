package cloud_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser/bundle"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

const other = "svc_otherotherotherotherotherotherother"

func TestCalls_UseKeyOfSession(t *testing.T) {
	fake, client := newFakeCloud(t)
	fake.AddKey(other)
	profile := fake.Profile(156)
	for _, key := range []session.OrganizationKey{{}, session.NewOrganizationKey(other)} {
		request, began, over := authorization(profile), started(profile), ended(profile)
		request.OrganizationKey, began.OrganizationKey, over.OrganizationKey = key, key, key
		if _, err := client.Authorize(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if err := client.ReportStart(t.Context(), began); err != nil {
			t.Fatal(err)
		}
		if err := client.ReportEnd(t.Context(), over); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Heartbeat(t.Context(), key, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i, call := range fake.Calls() {
		if want := map[bool]string{true: cloudtest.Key, false: other}[i < 4]; call.Key != want {
			t.Errorf("call %d, %s, was made with another key", i, call.Operation)
		}
	}
}

func TestCalls_RefusedCallerKeyIsReturnedToCaller(t *testing.T) {
	fake, client := newFakeCloud(t)
	for _, tc := range []struct {
		key    session.OrganizationKey
		answer cloudtest.Answer
		kind   fault.Kind
	}{
		{session.NewOrganizationKey(other), cloudtest.Failure(fault.Unauthenticated, "no"), fault.Unauthenticated},
		{session.NewOrganizationKey(other), cloudtest.Failure(fault.Forbidden, "no"), fault.Forbidden},
		{session.OrganizationKey{}, cloudtest.Failure(fault.Unauthenticated, "no"), fault.OwnKeyRefused},
	} {
		if !tc.key.IsZero() {
			fake.AddKey(other)
		}
		fake.Script(cloudtest.Authorize, tc.answer)
		request := authorization(uuid.New())
		request.OrganizationKey = tc.key
		grant, err := client.Authorize(t.Context(), request)
		if !fault.Is(err, tc.kind) || grant.SlotID != nil {
			t.Errorf("error %v, want one answered with %d", err, tc.kind.Status())
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v", err, request, request), "otherother") {
			t.Errorf("the output contains the key: %v %+v", err, request)
		}
	}
}

func TestProfile_ReadsCriteria(t *testing.T) {
	fake, client := newFakeCloud(t)
	profile := fake.Profile(156, func(c *cloudapi.ProfileConfig) {
		c.Os, c.OsVersion, c.WindowsVersion = new(sharedapi.OperatingSystem("windows")), new("10.0"), new(sharedapi.WindowsVersion("11"))
		c.OsArch, c.Model, c.Renderer, c.GpuName = new(sharedapi.OsArch("x86")), new("m"), new("r"), new("g")
	})
	grant, err := client.Authorize(t.Context(), authorization(profile))
	if err != nil {
		t.Fatal(err)
	}
	want := bundle.Criteria{OS: "windows", OSVersion: "10.0", WindowsVersion: "11", OSArch: "x86", Model: "m", Renderer: "r", GPUName: "g"}
	if grant.Profile.Criteria != want {
		t.Errorf("criteria %+v, want %+v", grant.Profile.Criteria, want)
	}
}
