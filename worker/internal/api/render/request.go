package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

const defaultTimeoutMs = 30_000 // for loading a page

// page is the page of a request: URL or HTML is set.
type page struct {
	URL       string              `json:"url"`
	HTML      string              `json:"html"`
	WaitUntil workerapi.WaitUntil `json:"waitUntil"`
	TimeoutMs int32               `json:"timeoutMs"`
}

var (
	errNoKey       = fault.New(fault.Unauthenticated, "A worker key or an organization key is required. Send it in X-API-Key, as a Bearer token or in ?token=.")
	errForeignPage = fault.New(fault.Forbidden, "Pages of this origin are not allowed to launch browsers.")
)

// read parses a request. The key is verified first: the worker reads large bodies only of
// callers with a valid key, and others learn nothing about other errors.
func (s *Service) read(c echo.Context, options any) (page, launch.Request, error) {
	r := c.Request()
	if origin := r.Header.Get(echo.HeaderOrigin); origin != "" && !s.Address.IsOrigin(origin) {
		return page{}, launch.Request{}, errForeignPage
	}
	key, err := requestKey(r)
	if err != nil {
		return page{}, launch.Request{}, err
	}
	caller := launch.Request{}
	if !s.IsWorkerKey(key) {
		caller.OrganizationKey, caller.Client = session.NewOrganizationKey(key), c.RealIP()
		if err := s.Launches.VerifyKey(r.Context(), caller); err != nil {
			return page{}, launch.Request{}, err
		}
	}
	if err := s.Inspect(c); err != nil {
		return page{}, launch.Request{}, err
	}
	body := struct {
		workerapi.LaunchProfileRequest
		page
		Options any `json:"options"`
	}{page: page{WaitUntil: "load", TimeoutMs: defaultTimeoutMs}, Options: options}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return page{}, launch.Request{}, fmt.Errorf("decode the request: %w", err)
	}
	if body.ProfileId == nil && body.Spec == nil {
		body.Spec = &sharedapi.LaunchSpec{}
	}
	request, err := s.Convert(body.LaunchProfileRequest)
	request.OrganizationKey, request.Client = caller.OrganizationKey, caller.Client
	return body.page, request, err
}

// requestKey returns the key of a request. Keys at several places must be the same.
func requestKey(r *http.Request) (string, error) {
	header, query := cmp.Or(r.Header.Get("X-API-Key"), oapi.BearerToken(r.Header)), r.URL.Query().Get("token")
	switch {
	case header == "" && query == "":
		return "", errNoKey
	case header != "" && query != "" && !session.NewOrganizationKey(header).Equal(session.NewOrganizationKey(query)):
		return "", fault.Field("token", "must not be given together with the key in the header")
	}
	return cmp.Or(header, query), nil
}
