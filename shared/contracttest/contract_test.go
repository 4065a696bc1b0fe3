package contracttest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/browser-svc/svc/shared/contracttest"
)

type document struct{ spec *openapi3.T }

func (d document) T() *openapi3.T { return d.spec }

func load(t *testing.T) document {
	t.Helper()
	text, err := os.ReadFile("testdata/pets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return document{spec}
}

// recorder is a testing.TB that keeps its failures.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// answer is the answer of the server under test.
type answer struct {
	status int
	header map[string]string
	body   string
}

const (
	pet     = `{"success":true,"data":{"id":"0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b","name":"Rex","owner":null,"tags":["a"],"metadata":{"any":1},"home":{"city":"Ulm"}}}`
	missing = `{"success":false,"error":{"code":"RESOURCE_NOT_FOUND","message":"No such pet."}}`
	invalid = `{"success":false,"error":{"code":"VALIDATION_ERROR","message":"No.","details":[{"field":"name","code":"REQUIRED","message":"is required"}]}}`
	petPath = "/pets/0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"
)

// request is the request of the test; a nil ctx is the context of the test.
type request struct {
	method, target, body string
	header               map[string]string
	mark                 func(context.Context) context.Context
}

// exchange sends a request to a server with this answer, and returns the violations
// that the client found and the body that the test read.
func exchange(t *testing.T, q request, a answer) (failures, body string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for name, value := range a.header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}))
	defer server.Close()
	ctx := t.Context()
	if q.mark != nil {
		ctx = q.mark(ctx)
	}
	r, err := http.NewRequestWithContext(ctx, q.method, server.URL+q.target, strings.NewReader(q.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-API-Key", "key")
	if q.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range q.header {
		r.Header.Set(name, value)
		if value == "" {
			r.Header.Del(name)
		}
	}
	book := &recorder{TB: t}
	res, err := contracttest.New(book, load(t), nil).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(book.failures, "\n"), string(content)
}

func jsonAnswer(status int, body string) answer {
	return answer{status, map[string]string{"Content-Type": "application/json; charset=utf-8", "X-Request-Id": "12345678"}, body}
}

func with(a answer, name, value string) answer {
	header := map[string]string{name: value}
	for n, v := range a.header {
		if n != name {
			header[n] = v
		}
	}
	if value == "" {
		header = map[string]string{"Content-Type": "application/json"}
	}
	a.header = header
	return a
}

func TestClient_ConformingServerPasses(t *testing.T) {
	get := request{method: "GET", target: petPath}
	create := request{method: "POST", target: "/pets", body: `{"name":"Rex"}`}
	for name, test := range map[string]struct {
		request request
		answer  answer
	}{
		"a documented success":            {get, jsonAnswer(200, pet)},
		"a documented failure":            {get, jsonAnswer(404, missing)},
		"any failure by default":          {get, jsonAnswer(503, strings.Replace(missing, "RESOURCE_NOT_FOUND", "EXTERNAL_SERVICE_ERROR", 1))},
		"a literal path before a pattern": {request{method: "GET", target: "/pets/stats?page=2"}, jsonAnswer(200, `{"success":true,"data":{"count":3}}`)},
		"a created resource":              {create, with(jsonAnswer(201, pet), "Location", "/pets/1")},
		"headers that anybody sends": {get, with(with(with(jsonAnswer(200, pet), "ETag", `"1"`), "Vary", "Accept"),
			"Content-Security-Policy", "default-src 'none'")},
		"no content":                  {request{method: "DELETE", target: petPath}, answer{status: 204}},
		"a refusal that is a success": {request{method: "POST", target: "/authorize"}, jsonAnswer(402, `{"success":true,"data":{"count":0}}`)},
		"a public operation":          {request{method: "GET", target: "/public", header: map[string]string{"X-API-Key": ""}}, jsonAnswer(200, `{"success":true,"data":{"count":0}}`)},
		"a picture":                   {request{method: "GET", target: "/raw/picture"}, answer{200, map[string]string{"Content-Type": "image/png"}, "\x89PNG"}},
		"another protocol's JSON":     {request{method: "GET", target: "/raw/version?ct=token", header: map[string]string{"X-API-Key": ""}}, jsonAnswer(200, `{"Browser":"Chrome"}`)},
		"a launch's cookie": {request{method: "GET", target: "/raw/version",
			header: map[string]string{"X-API-Key": "", "Cookie": "svc_ctl_0190=t"}}, jsonAnswer(200, `{"Browser":"Chrome"}`)},
		"null for an optional member": {request{method: "POST", target: "/pets", body: `{"name":"Rex","nick":null}`}, with(jsonAnswer(201, pet), "Location", "/pets/1")},
		"an empty body for none":      {request{method: "DELETE", target: petPath, body: `{}`}, answer{status: 204}},
		"a deliberate mistake, refused": {request{method: "POST", target: "/pets", body: `{"nam":"Rex"}`, mark: contracttest.AllowInvalidRequest},
			jsonAnswer(400, invalid)},
		"a missing credential, refused": {request{method: "GET", target: petPath, header: map[string]string{"X-API-Key": ""}},
			jsonAnswer(401, strings.Replace(missing, "RESOURCE_NOT_FOUND", "AUTHENTICATION_ERROR", 1))},
		"an undocumented path, refused":   {request{method: "GET", target: "/nothing", mark: contracttest.AllowUndocumentedRoute}, jsonAnswer(404, missing)},
		"an undocumented method, refused": {request{method: "PUT", target: petPath, mark: contracttest.AllowUndocumentedRoute}, with(jsonAnswer(405, missing), "Allow", "GET")},
		"an undocumented page":            {request{method: "GET", target: "/docs", mark: contracttest.AllowUndocumentedRoute}, answer{200, map[string]string{"Content-Type": "text/html"}, "<p>"}},
		"an unknown browser":              {request{method: "GET", target: "/browsers/x/y", mark: contracttest.AllowUndocumentedRoute}, answer{404, map[string]string{"Content-Type": "text/plain"}, "unknown browser"}},
	} {
		t.Run(name, func(t *testing.T) {
			failures, body := exchange(t, test.request, test.answer)
			if failures != "" {
				t.Error(failures)
			}
			if body != test.answer.body {
				t.Errorf("the test read %q", body)
			}
		})
	}
}

func TestClient_ReportsViolations(t *testing.T) {
	get := request{method: "GET", target: petPath}
	create := request{method: "POST", target: "/pets", body: `{"name":"Rex"}`}
	stats := request{method: "GET", target: "/pets/stats"}
	okStats := `{"success":true,"data":{"count":3}}`
	change := func(old, new string) answer {
		t.Helper()
		if !strings.Contains(pet, old) {
			t.Fatalf("no %q in the pet", old)
		}
		return jsonAnswer(200, strings.Replace(pet, old, new, 1))
	}
	for name, test := range map[string]struct {
		request request
		answer  answer
		want    string
	}{
		"an undocumented status":       {stats, jsonAnswer(418, missing), "does not document the status 418"},
		"an invalid request, unsaid":   {get, jsonAnswer(400, strings.Replace(missing, "RESOURCE_NOT_FOUND", "VALIDATION_ERROR", 1)), "body: a VALIDATION_ERROR has no details"},
		"a wrong type":                 {get, change(`"Rex"`, `7`), "body: data.name: value must be a string (got 7)"},
		"a missing field":              {get, change(`"name":"Rex",`, ``), `body: data.name: property "name" is missing`},
		"an extra field":               {get, change(`"owner"`, `"colour":"red","owner"`), "body: data.colour is not in the schema"},
		"an extra field, nested":       {get, change(`"city"`, `"town":"Ulm","city"`), "body: data.home.town is not in the schema"},
		"an extra field of envelope":   {get, change(`"data"`, `"date":1,"data"`), "body: date is not in the schema"},
		"null where it may not be":     {get, change(`"Rex"`, `null`), "body: data.name: Value is not nullable"},
		"a wrong item":                 {get, change(`["a"]`, `["a",2]`), "body: data.tags[1]: value must be a string (got 2)"},
		"no uuid":                      {get, change(`0190a1b2-c3d4`, `0190a1b2c3d4`), "body: data.id: "},
		"success false with 200":       {get, change(`true`, `false`), "body: success is false with status 200"},
		"no success with 200":          {get, change(`"success":true,`, ``), "body: success is <nil> with status 200"},
		"success true with 404":        {get, jsonAnswer(404, pet), "body: success is true with status 404"},
		"a code that doesn't exist":    {get, jsonAnswer(404, strings.Replace(missing, "RESOURCE", "RESSOURCE", 1)), "body: error.code: "},
		"not JSON":                     {get, jsonAnswer(200, `{"success":`), "the body is not JSON"},
		"an empty body":                {get, jsonAnswer(200, ""), "the body is not JSON"},
		"HTML for JSON":                {get, with(jsonAnswer(200, "<html>"), "Content-Type", "text/html"), `the content type is "text/html", the document has "application/json"`},
		"a missing header":             {get, with(jsonAnswer(200, pet), "X-Request-Id", ""), "header X-Request-Id is missing"},
		"a malformed header":           {get, with(jsonAnswer(200, pet), "X-Request-Id", "short"), "header X-Request-Id: minimum string length is 8"},
		"no Location":                  {create, jsonAnswer(201, pet), "header Location is missing"},
		"a header that is no number":   {get, with(jsonAnswer(429, strings.Replace(missing, "RESOURCE_NOT_FOUND", "RATE_LIMIT_EXCEEDED", 1)), "Retry-After", "soon"), "header Retry-After: value must be an integer"},
		"a header nobody documents":    {get, with(jsonAnswer(200, pet), "X-Debug", "1"), "header X-Debug is not documented"},
		"a cookie nobody documents":    {get, with(jsonAnswer(200, pet), "Set-Cookie", "a=b"), "header Set-Cookie is not documented"},
		"another status's header":      {get, with(jsonAnswer(200, pet), "Retry-After", "1"), "header Retry-After is not documented"},
		"a body where none belongs":    {request{method: "DELETE", target: petPath}, jsonAnswer(202, pet), "has no body for this status"},
		"a raw answer of another type": {request{method: "GET", target: "/raw/picture"}, answer{200, map[string]string{"Content-Type": "text/plain"}, "no"}, `the content type is "text/plain", the document has "image/*"`},

		"a path nobody documents":   {request{method: "GET", target: "/nothing"}, jsonAnswer(404, missing), "no operation of the document"},
		"a method nobody documents": {request{method: "PUT", target: petPath}, jsonAnswer(405, missing), "no operation of the document"},
		"an undocumented 404, no envelope": {request{method: "GET", target: "/nothing", mark: contracttest.AllowUndocumentedRoute},
			jsonAnswer(404, `{"message":"Not Found"}`), "not the failure envelope"},
		"an undocumented 405 without Allow": {request{method: "PUT", target: petPath, mark: contracttest.AllowUndocumentedRoute},
			jsonAnswer(405, missing), "header Allow is missing"},

		"a request without a field":      {request{method: "POST", target: "/pets", body: `{}`}, jsonAnswer(400, missing), `request: body: name: property "name" is missing`},
		"a request with an unknown key":  {request{method: "POST", target: "/pets", body: `{"name":"Rex","nam":1}`}, jsonAnswer(400, missing), `request: body: property "nam" is unsupported`},
		"a request without its body":     {request{method: "POST", target: "/pets"}, jsonAnswer(400, missing), "request: body: value is required but missing"},
		"a body nobody asked for":        {request{method: "GET", target: petPath, body: `{"a":1}`}, jsonAnswer(200, pet), "request: the operation takes no body"},
		"a body of another type":         {request{method: "POST", target: "/pets", body: "x", header: map[string]string{"Content-Type": "text/csv"}}, jsonAnswer(415, missing), `does not take the content type "text/csv"`},
		"a malformed path parameter":     {request{method: "GET", target: "/pets/7"}, jsonAnswer(404, missing), "request: path parameter petId: "},
		"a query parameter out of range": {request{method: "GET", target: "/pets/stats?page=0"}, jsonAnswer(200, okStats), "request: query parameter page: number must be at least 1"},
		"a mistake where nothing is checked": {request{method: "GET", target: "/raw/version?x=1", header: map[string]string{"X-API-Key": "", "Cookie": "svc_ctl_0190=t"}},
			jsonAnswer(200, `{"Browser":"Chrome"}`), `request: the operation has no query parameter "x"`},
		"an unknown query parameter": {request{method: "GET", target: "/pets/stats?pag=1"}, jsonAnswer(200, okStats), `request: the operation has no query parameter "pag"`},
		"a mistake the server swallows": {request{method: "POST", target: "/pets", body: `{"nam":"Rex"}`, mark: contracttest.AllowInvalidRequest},
			with(jsonAnswer(201, pet), "Location", "/pets/1"), "an invalid request was accepted"},
		"an open door": {request{method: "GET", target: petPath, header: map[string]string{"X-API-Key": ""}}, jsonAnswer(200, pet),
			"a request without the required credential was accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			failures, body := exchange(t, test.request, test.answer)
			if !strings.Contains(failures, test.want) {
				t.Errorf("no %q in %q", test.want, failures)
			}
			if body != test.answer.body {
				t.Errorf("the test read %q", body)
			}
		})
	}
}

func TestReport_HasOperationAndBodies(t *testing.T) {
	failures, _ := exchange(t, request{method: "POST", target: "/pets?dry=1", body: `{"name":"Rex"}`}, jsonAnswer(201, pet))
	want := "contract: POST /pets (createPet) answered 201:\n" +
		"    - request: the operation has no query parameter \"dry\"\n" +
		"    - header Location is missing\n" +
		"    sent: {\"name\":\"Rex\"}\n" +
		"    received: " + pet
	if failures != want {
		t.Errorf("report:\n%s\nwant:\n%s", failures, want)
	}
}

// endlessBody is a body without an end.
type endlessBody struct{ read int }

func (e *endlessBody) Read(p []byte) (int, error) { e.read += len(p); return len(p), nil }
func (e *endlessBody) Close() error               { return nil }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestClient_DoesNotReadStreams(t *testing.T) {
	stream := &endlessBody{}
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"image/png"}}, Body: stream, ContentLength: -1, Request: r}, nil
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/raw/picture", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-API-Key", "key")
	res, err := contracttest.New(t, load(t), base).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.Body != io.ReadCloser(stream) || stream.read != 0 {
		t.Errorf("the stream was read: %d bytes", stream.read)
	}
}
