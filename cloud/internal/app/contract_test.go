package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/cloudapi"
)

func TestRoutes_AnswersCarryContractVersion(t *testing.T) {
	web, options := routed(t)
	server := httptest.NewServer(web)
	defer server.Close()
	ask := func(method, path string) *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := server.Client().Transport.RoundTrip(request) // redirects are validated, too
		if err != nil {
			t.Fatal(err)
		}
		if got := answer.Header.Values("X-Svc-Contract"); !slices.Equal(got, []string{options.Document.ContractVersion()}) {
			t.Errorf("%s %s: %d with X-Svc-Contract %q", method, path, answer.StatusCode, got)
		}
		return answer
	}
	placeholder := regexp.MustCompile(`:[A-Za-z]+|\*`)
	for _, route := range append(web.Routes(), &echo.Route{Method: "GET", Path: "/nowhere"}, &echo.Route{Method: "PUT", Path: "/health"}) {
		if route.Method != echo.RouteNotFound {
			_ = ask(route.Method, placeholder.ReplaceAllString(route.Path, "x")).Body.Close()
		}
	}
	answer := ask("GET", "/health")
	defer answer.Body.Close()
	var health cloudapi.CloudHealthResponse
	if err := json.NewDecoder(answer.Body).Decode(&health); err != nil || health.Data.ContractVersion != options.Document.ContractVersion() {
		t.Errorf("got health %+v (%v)", health, err)
	}
}
