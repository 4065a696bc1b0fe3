package rest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
)

func TestEndProfileSession_StoresNetwork(t *testing.T) {
	a := newLicenseAPI(t)
	session := a.reserve()
	a.start(session).want(t, 201, "")
	a.record(session, false)
	report := a.sessions() + "/" + session.String()
	a.do("DELETE", report, a.worker, nil).want(t, 200, "") // an authorize request has carried the end
	a.record(session, true)
	address := "/v1/sessions/" + session.String()
	if got := decode[cloudapi.SessionDetail](t, a.do("GET", address, a.caller, nil), 200); got.Network != nil || got.NetworkHosts != nil {
		t.Errorf("before the report: %+v, %+v", got.Network, got.NetworkHosts)
	}
	network := cloudapi.SessionNetwork{Totals: sharedapi.NetworkTotals{Connections: 3, BytesSent: 4210, BytesReceived: 91822, Denied: 2}, Items: []sharedapi.NetworkHost{
		{Host: "example.com", Connections: 3, BytesSent: 4210, BytesReceived: 91822, Denied: []sharedapi.NetworkDenial{}, Proxy: new("proxy.example:8080")},
		{Host: "t.ads.example", Denied: []sharedapi.NetworkDenial{{Level: "organization", Rule: "connect.deny: *.ads.example", Count: 2}}},
	}}
	a.do("DELETE", report, apiKey(a.organization().String()), map[string]any{"network": network}).want(t, 404, "RESOURCE_NOT_FOUND")
	for range 2 {
		a.do("DELETE", report, a.worker, map[string]any{"network": network}).want(t, 200, "")
	}
	got := decode[cloudapi.SessionDetail](t, a.do("GET", address, a.caller, nil), 200)
	if diff := cmp.Diff(&network.Totals, got.Network) + cmp.Diff(&network.Items, got.NetworkHosts); diff != "" {
		t.Errorf("the session (-want +got):\n%s", diff)
	}
	listed := decode[cloudapi.SessionList](t, a.do("GET", "/v1/sessions", a.caller, nil), 200)
	if diff := cmp.Diff(&network.Totals, listed.Items[0].Network); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
	a.do("GET", address, bearer(a.organization().String()), nil).want(t, 404, "RESOURCE_NOT_FOUND")
	query := fmt.Sprintf("?from=%s&to=%s", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	if usage := a.usage(query, a.caller); usage.BytesSent != 4210 || usage.BytesReceived != 91822 || usage.BrowserHours < 0 || usage.BrowserHours > .1 {
		t.Errorf("usage: %+v", usage)
	}
	days := decode[cloudapi.UsageDays](t, a.do("GET", "/v1/license/usage/days"+query, a.caller, nil), 200).Items
	if len(days) != 1 || days[0].Sessions != 1 || days[0].BytesSent != 4210 || days[0].BytesReceived != 91822 || days[0].Denied != 2 || days[0].ProfileName != "Checkout" || days[0].ProfileId == nil {
		t.Errorf("usage by day: %+v", days)
	}
	other := bearer(a.organization().String())
	if days := decode[cloudapi.UsageDays](t, a.do("GET", "/v1/license/usage/days", other, nil), 200).Items; len(days) != 0 {
		t.Errorf("usage of another organization: %+v", days)
	}
	a.do("GET", "/v1/license/usage/days?from=2026-11-22T00:00:00Z&to=2026-11-21T00:00:00Z", a.caller, nil).want(t, 400, "VALIDATION_ERROR")
	network.Items = make([]sharedapi.NetworkHost, 101)
	a.wrong("DELETE", report, a.worker, map[string]any{"network": network}).want(t, 400, "VALIDATION_ERROR")
}
