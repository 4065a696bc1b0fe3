package app

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/contracttest"
)

// TestAccess_EveryOperationWithEveryCredential calls every operation of the document
// with every credential, in a new organization if the last call may have changed it. It
// compares the answers with the document, with the rules derived from it
// (access_rules_test.go) and with testdata/access.md, which -update rewrites. A changed
// permission is therefore visible in a review.
func TestAccess_EveryOperationWithEveryCredential(t *testing.T) {
	h := newTestEnv(t, map[string]string{"OIDC_ISSUER": signInProvider(t), "OIDC_CLIENT_ID": "svc", "OIDC_CLIENT_SECRET": "secret"})
	h.publish(t)
	operations := operationsOf(h.document.T())
	rows := h.askAll(t, operations, requests, credentials)
	for id := range operations {
		if !slices.ContainsFunc(requests, func(r request) bool { return r.operation == id }) {
			t.Errorf("%s has no request: add one to access_requests_test.go", id)
		}
	}
	checkTable(t, accessTable, render(accessHeading, requests, credentials, rows))
}

// askAll sends each request with each credential and returns the outcomes. It compares
// them with the rules.
func (h *testEnv) askAll(t *testing.T, operations map[string]operation, requests []request, credentials []credential) [][]outcome {
	t.Helper()
	hash, checksum := cheapHash(t), prepareChecksum(t, h)
	rows := make([][]outcome, len(requests))
	t.Run("ask", func(t *testing.T) {
		for i, r := range requests {
			op, known := operations[r.operation]
			if !known {
				t.Errorf("%s is not in the document", r.operation)
				continue
			}
			t.Run(strings.TrimSuffix(r.operation+" "+r.what, " "), func(t *testing.T) {
				t.Parallel()
				client := contracttest.New(t, h.document, nil)
				var last *call
				for _, c := range credentials {
					a := &call{t: t, env: h, client: client, op: op, request: r, credential: c, checksumOf: checksum}
					if a.theirs = newTenant(hash); last != nil && last.unchanged {
						a.ours, a.before = last.ours, last.after
					} else {
						a.ours = newTenant(hash)
					}
					last = a
					got := a.ask()
					rows[i] = append(rows[i], got)
					if problem := a.check(got, rows[i][0]); problem != "" {
						t.Errorf("%s: got %s %s: %s", c.name, got, got.body, problem)
					}
				}
			})
		}
	})
	return rows
}

// operation is an operation of the document.
type operation struct {
	*openapi3.Operation
	method, path string
	schemes      map[string]bool // alternatives; none for a public operation
	roles        []string        // x-roles
	scope        string          // x-scope
	anyOrg       bool            // x-active-organization: any
}

func operationsOf(spec *openapi3.T) map[string]operation {
	all := map[string]operation{}
	for path, item := range spec.Paths.Map() {
		for method, op := range item.Operations() {
			o := operation{Operation: op, method: method, path: path, schemes: map[string]bool{}}
			security := spec.Security
			if op.Security != nil {
				security = *op.Security
			}
			for _, alternative := range security {
				for scheme := range alternative {
					o.schemes[scheme] = true
				}
			}
			roles, _ := op.Extensions["x-roles"].([]any)
			for _, role := range roles {
				o.roles = append(o.roles, role.(string))
			}
			o.scope, _ = op.Extensions["x-scope"].(string)
			o.anyOrg = op.Extensions["x-active-organization"] == "any"
			all[op.OperationID] = o
		}
	}
	return all
}

// call is one request with one credential.
type call struct {
	t          *testing.T
	env        *testEnv
	client     *http.Client
	op         operation
	request    request
	credential credential
	checksumOf *sqlx.Stmt // checksums the organization $1

	ours, theirs tenant // a credential with away belongs to theirs
	free         tenant // values that belong to no organization, such as {freshId}
	token        string // of the session, if the credential has one
	sent         string // path, query and body

	before, after string // checksums of ours; before is "" if ours was not created yet
	unchanged     bool   // whether the next call can use ours
}

// changed reports whether the request changed data of ours.
func (a *call) changed() bool { return a.after != a.before }

// callerTenant returns the tenant that the credential belongs to.
func (a *call) callerTenant() tenant {
	if a.credential.away {
		return a.theirs
	}
	return a.ours
}

func (a *call) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatalf("%s: %v", a.credential.name, err)
	}
}

// fill replaces the placeholders of ours and free in a text.
func (a *call) fill(text string) string { return a.free.fill(a.ours.fill(text)) }

// exec runs statements with placeholders.
func (a *call) exec(statements string) {
	a.t.Helper()
	_, err := a.env.all.ExecContext(a.t.Context(), a.fill(statements))
	a.must(err)
}

// ask prepares the call, sends its request and returns the outcome.
func (a *call) ask() outcome {
	a.t.Helper()
	created := a.before == ""
	a.prepare()
	r := a.compose()
	if a.prepares() || created {
		a.before = a.checksum()
	}
	got := a.send(r)
	a.after = a.checksum()
	a.unchanged = !a.changed() && !a.prepares() && (a.op.method == http.MethodGet || !got.succeeded())
	return got
}

// prepares reports whether the call itself changes ours, before the request or, by the
// use of a key, some time after it.
func (a *call) prepares() bool {
	c := a.credential
	return a.request.before != nil || c.former || c.beside || strings.Contains(c.name, "key")
}

// prepare creates the organizations and the other required data, and signs in.
func (a *call) prepare() {
	a.t.Helper()
	if a.before == "" {
		a.exec(accessSQL)
	}
	if a.credential.away {
		a.exec(a.theirs.fill(accessSQL))
	}
	a.free = tenant{
		"callerId":             cmp.Or(a.callerTenant()[a.credential.user+"Id"], uuid.NewString()),
		"callerEmail":          cmp.Or(a.credential.user, "nobody") + "-" + a.callerTenant()["mark"] + "@example.com",
		"callerOrganizationId": a.callerTenant()["organizationId"],
		"freshId":              uuid.NewString(),
		"mailToken":            base64.RawURLEncoding.EncodeToString(random(32)),
		"version":              releaseVersion,
	}
	if a.credential.user != "" {
		a.token = a.env.signIn(a.t, a.callerTenant(), a.credential.user)
	}
	if a.credential.beside {
		a.must(a.env.parts.accounts.Activate(a.t.Context(), a.token, uuid.MustParse(a.ours["besideId"])))
	}
	if a.credential.former {
		a.exec(`DELETE FROM memberships WHERE user_id = '{callerId}'`)
	}
	if a.request.before != nil {
		a.request.before(a)
	}
}

// send sends a request and returns the outcome.
func (a *call) send(r *http.Request) outcome {
	a.t.Helper()
	response, err := a.client.Do(r)
	a.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	a.must(err)
	var envelope struct{ Error struct{ Code string } }
	if response.StatusCode >= http.StatusBadRequest && a.op.method != http.MethodHead {
		a.must(json.Unmarshal(body, &envelope))
	}
	return outcome{
		status: response.StatusCode, code: envelope.Error.Code, body: strings.TrimSpace(string(body)),
		retryAfter: response.Header.Get("Retry-After"),
	}
}

// compose returns the request.
func (a *call) compose() *http.Request {
	a.t.Helper()
	target := a.fill(cmp.Or(a.request.path, a.op.path))
	if a.request.query != "" {
		target += "?" + a.fill(a.request.query)
	}
	text, mediaType := a.body()
	a.sent = target + text
	var body io.Reader
	if text != "" {
		body = bytes.NewBufferString(text)
	}
	r, err := http.NewRequestWithContext(a.t.Context(), a.op.method, a.env.url+target, body)
	a.must(err)
	if text != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	for name, value := range a.request.headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("X-Forwarded-For", randomAddress()) // avoids the limits per address
	a.credential.show(a, r.Header)
	return r
}

// body returns the body of the request, or the document's example.
func (a *call) body() (text, mediaType string) {
	a.t.Helper()
	if a.op.RequestBody == nil {
		return "", ""
	}
	for name, content := range a.op.RequestBody.Value.Content {
		mediaType = name
		if a.request.body == "" {
			example, err := json.Marshal(content.Example)
			a.must(err)
			return string(example), mediaType
		}
	}
	return a.fill(a.request.body), mediaType
}
