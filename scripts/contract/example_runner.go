package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/browser-svc/svc/shared/contracttest"
)

// exampleSetup contains the replacements for an example.
type exampleSetup struct {
	path, query map[string]string
	body        map[string]any    // replaced members
	content     []byte            // a body that is not JSON, for an operation without an example
	header      map[string]string // another credential than the default one
	after       func(context.Context) error
}

// exampleRunner sends examples. Its requests, too, must match the documents.
type exampleRunner struct {
	*seeder
	seed     *seed
	clients  map[string]*http.Client // by surface
	bases    map[string]string
	findings []string // of the current exchange
	launch   *launched
	recorded string // the session of recordingSetup
}

func newExampleRunner(h *testEnvironment) *exampleRunner {
	p := &exampleRunner{
		seeder: &seeder{cloudURL: h.seed.CloudURL, workerURL: h.seed.WorkerURL, mail: h.mail()}, seed: h.seed,
		bases: map[string]string{"cloud": h.seed.CloudURL, "worker": h.seed.WorkerURL},
	}
	client := func(document contracttest.Document) *http.Client {
		return &http.Client{
			Timeout:       callTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     contracttest.NewValidator(document).Transport(directTransport(), func(x *contracttest.Exchange) { p.findings = x.Findings }),
		}
	}
	p.clients = map[string]*http.Client{"cloud": client(h.documents.cloud), "worker": client(h.documents.worker)}
	return p
}

// run sends one example. The response must be a documented success.
func (p *exampleRunner) run(ctx context.Context, e exampleRequest) error {
	s, err := p.setup(ctx, e)
	if err != nil {
		return fmt.Errorf("prepare it: %w", err)
	}
	request, err := p.request(ctx, e, s)
	if err != nil {
		return err
	}
	p.findings = nil
	response, err := p.clients[e.surface].Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	problems := make([]error, 0, len(p.findings))
	for _, finding := range p.findings {
		problems = append(problems, errors.New(finding))
	}
	if response.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		problems = append(problems, fmt.Errorf("the response was %d: %s", response.StatusCode, bytes.TrimSpace(text)))
	}
	if s.after != nil {
		problems = append(problems, s.after(ctx))
	}
	return errors.Join(problems...)
}

// setup returns the setup of the operation, or an empty one, with the common
// replacements.
func (p *exampleRunner) setup(ctx context.Context, e exampleRequest) (exampleSetup, error) {
	var s exampleSetup
	var err error
	if prepare, ok := p.setups()[e.operation.OperationID]; ok {
		s, err = prepare(ctx)
	}
	if err != nil {
		return s, err
	}
	usual := map[string]string{
		"organizationId": p.seed.OrganizationID.String(), "profileId": p.seed.ProfileID.String(), "version": publishedVersion,
	}
	if strings.HasPrefix(e.path, "/browsers/") || strings.HasPrefix(e.path, "/json/") || strings.HasPrefix(e.path, "/devtools/") {
		if p.launch == nil {
			if p.launch, err = p.newLaunch(ctx, false); err != nil {
				return s, err
			}
		}
		usual["launchId"], usual["targetId"], usual["browserGuid"] = p.launch.id, p.launch.target, p.launch.guid
	}
	maps.Copy(usual, s.path)
	s.path = usual
	if s.header == nil {
		s.header = p.credential(e)
	}
	return s, nil
}

// credential returns the first credential that the operation accepts.
func (p *exampleRunner) credential(e exampleRequest) map[string]string {
	security := e.spec.Security
	if e.operation.Security != nil {
		security = *e.operation.Security
	}
	for _, alternative := range security {
		for name := range alternative {
			switch name {
			case "dashboardSession", "dashboardBearer":
				return bearer(p.seed.Owner)
			case "organizationKey":
				return map[string]string{"X-API-Key": p.seed.OrganizationKey}
			case "controlToken":
				return map[string]string{"X-Svc-Token": p.launch.token}
			case "controlBearer":
				return map[string]string{"Authorization": "Bearer " + p.launch.token}
			case "metricsToken":
				return map[string]string{"Authorization": "Bearer " + p.seed.MetricsToken}
			case "workerKey":
				return map[string]string{"X-API-Key": p.seed.WorkerKey}
			}
		}
	}
	return nil
}

func bearer(user *user) map[string]string {
	return map[string]string{"Authorization": "Bearer " + user.Token}
}

// request returns the request of the example with the replacements.
func (p *exampleRunner) request(ctx context.Context, e exampleRequest, s exampleSetup) (*http.Request, error) {
	path := e.path
	for name, value := range s.path {
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
	}
	if strings.Contains(path, "{") {
		return nil, fmt.Errorf("no values for the parameters of %s", path)
	}
	query := url.Values{}
	for name, value := range s.query {
		query.Set(name, value)
	}
	target := p.bases[e.surface] + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	var body io.Reader
	if e.body != nil {
		text, err := json.Marshal(replaceMembers(e.body, s.body))
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	if s.content != nil {
		body = bytes.NewReader(s.content)
	}
	r, err := http.NewRequestWithContext(ctx, e.method, target, body)
	if err != nil {
		return nil, err
	}
	switch {
	case e.body != nil:
		r.Header.Set("Content-Type", bodyType(e))
	case s.content != nil:
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	if e.operation.Responses.Status(http.StatusSwitchingProtocols) != nil {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		r.Header.Set("Sec-WebSocket-Version", "13")
		r.Header.Set("Sec-WebSocket-Key", "c3ZjLWNvbnRyYWN0LXRlcw==")
	}
	for name, value := range s.header {
		r.Header.Set(name, value)
	}
	return r, nil
}

// bodyType returns the content type of a body: JSON if the operation accepts it.
func bodyType(e exampleRequest) string {
	const json = "application/json"
	types := slices.Sorted(maps.Keys(e.operation.RequestBody.Value.Content))
	if slices.Contains(types, json) {
		return json
	}
	return types[0]
}

// replaceMembers returns the body with replaced members, by name or dotted path.
// Members that the example does not have are not added.
func replaceMembers(body any, with map[string]any) any {
	object, ok := body.(map[string]any)
	if !ok {
		return body
	}
	changed := maps.Clone(object)
	for _, path := range slices.SortedFunc(maps.Keys(with), cmp.Compare[string]) {
		name, rest, nested := strings.Cut(path, ".")
		value, has := changed[name]
		switch {
		case !has:
		case nested:
			changed[name] = replaceMembers(value, map[string]any{rest: with[path]})
		default:
			changed[name] = with[path]
		}
	}
	return changed
}
