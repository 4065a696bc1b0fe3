package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/browser-svc/svc/shared/contracttest"
)

// allFaults returns all faults. Each must be detected by its stage.
func allFaults(s *seed) []fault { return slices.Concat(responseFaults(s), documentFaults()) }

// responseFaults returns faults of a server that does not match its document.
func responseFaults(s *seed) []fault {
	data := func(body map[string]any) map[string]any { return body["data"].(map[string]any) }
	return []fault{
		{
			name: "a null list", stage: "examples", only: "listProfiles", wantError: `body: data\.items: Value is not nullable`,
			tampering: tamperResponse("/v1/profiles", http.StatusOK, func(_ *http.Response, body map[string]any) map[string]any {
				data(body)["items"] = nil
				return body
			}),
		},
		{
			name: "an extra status", stage: "seen", wantError: `cloud getProfile: .*410 undocumented`, before: requestUnknownProfile,
			tampering: tamperResponse("/v1/profiles/", http.StatusNotFound, func(a *http.Response, body map[string]any) map[string]any {
				a.StatusCode, a.Status = http.StatusGone, "410 Gone"
				return body
			}),
		},
		{
			name: "a wrong enum", stage: "examples", only: "getSubscription", wantError: `body: data\.status: value is not one of the allowed values`,
			tampering: tamperResponse("/v1/billing/subscription", http.StatusOK, func(_ *http.Response, body map[string]any) map[string]any {
				data(body)["status"] = "alive"
				return body
			}),
		},
		{
			name: "an undocumented header", stage: "examples", only: "listPlans", wantError: `header X-Debug is not documented`,
			tampering: tampering{answer: func(r *http.Request, a *http.Response) error {
				if r.URL.Path == "/v1/plans" {
					a.Header.Set("X-Debug", "1")
				}
				return nil
			}},
		},
		{
			name: "an error outside the envelope", stage: "schemathesis", only: "getProfile", wantError: `"That is no profile\." is not of type "object"`,
			tampering: tamperResponse("/v1/profiles/", http.StatusBadRequest, func(*http.Response, map[string]any) map[string]any {
				return map[string]any{"error": "That is no profile."}
			}),
		},
		{
			name: "a 200 where a 401 is due", stage: "schemathesis", only: "getProfileStats", wantError: `API accepts (requests without|invalid) authentication`,
			tampering: tampering{request: func(r *http.Request) {
				if r.Header.Get("Authorization") == "" && r.URL.Path == "/v1/profiles/stats" {
					r.Header.Set("Authorization", "Bearer "+s.Owner.Token)
				}
			}},
		},
	}
}

// documentFaults returns faults of a document that does not match its server, breaks
// clients or violates the lint rules.
func documentFaults() []fault {
	return []fault{
		{
			name: "a missing 404", stage: "seen", wantError: `cloud getProfile: .*404 undocumented`, before: requestUnknownProfile,
			edits: []edit{{"cloud/profiles.yaml", "operationId: getProfile", "        '404': {$ref: '../shared.yaml#/components/responses/NotFound'}\n", ""}},
		},
		{
			name: "a renamed operationId", stage: "released", wantError: "operation id `getProfile` removed",
			edits: []edit{{"cloud/profiles.yaml", "  /v1/profiles/{profileId}:", "operationId: getProfile\n", "operationId: getOneProfile\n"}},
		},
		{
			name: "a removed field", stage: "released", wantError: "removed the required property `data/lastUsedAt`",
			edits: []edit{
				{"cloud/profiles.yaml", "    Profile:", "lastUsedAt, ", ""},
				{"cloud/profiles.yaml", "    Profile:", "        lastUsedAt: {", "        usedLastAt: {"},
			},
		},
		{
			name: "a required field added to a request", stage: "released", wantError: "the request property `notes` became required",
			edits: []edit{
				{"cloud/profiles.yaml", "    CreateProfileRequest:", "required: [name, browserVersion]", "required: [name, browserVersion, notes]"},
				{"cloud/profiles.yaml", "operationId: createProfile", "{name: Checkout in German,", "{name: Checkout in German, notes: None,"},
			},
		},
		{
			name: "an open request body", stage: "lint", wantError: `svc-request-closed`,
			edits: []edit{{"cloud/profiles.yaml", "    CreateProfileRequest:", "      additionalProperties: false\n", ""}},
		},
		{
			name: "a wrong example", stage: "examples", only: "listPlans", wantError: `cloud signUp request : the example does not match the schema: email: `,
			edits: []edit{{"cloud/accounts.yaml", "operationId: signUp", "example: {email: ada@example.com,", "example: {email: ada,"}},
		},
	}
}

// faults injects one fault at a time and runs its stage. The stage must fail with
// the expected error, and must not report this error without the fault.
func (h *testEnvironment) faults(ctx context.Context) (string, error) {
	if err := os.Remove(h.faultLog()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	var problems []error
	all := allFaults(h.seed)
	for _, f := range all {
		began := time.Now()
		caught, err := h.catchFault(ctx, f)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", f.name, err))
			caught = "NOT CAUGHT"
		}
		fmt.Printf("  %-38s  by %-12s  %6s  %s\n", f.name, f.stage, seconds(time.Since(began)), caught)
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Sprintf("%d of %d faults caught", len(all)-len(problems), len(all)), errors.Join(problems...)
}

// catchFault returns the error text with which the stage reports the fault.
func (h *testEnvironment) catchFault(ctx context.Context, f fault) (string, error) {
	pattern, err := regexp.Compile(f.wantError)
	if err != nil {
		return "", err
	}
	withoutFault := f
	withoutFault.edits, withoutFault.tampering = nil, tampering{}
	if f.stage != "lint" && f.stage != "released" { // these stages ran completely before this one
		if report, _ := h.runWithFault(ctx, withoutFault); pattern.MatchString(report) {
			return "", fmt.Errorf("stage %s reports the same without the fault: %s", f.stage, report)
		}
	}
	report, err := h.runWithFault(ctx, f)
	if err != nil {
		return "", err
	}
	if err := h.appendFaultReport(f, report); err != nil {
		return "", err
	}
	words := pattern.FindString(report)
	if words == "" {
		return "", fmt.Errorf("stage %s does not report the fault, see %s", f.stage, h.faultLog())
	}
	return words, nil
}

func (h *testEnvironment) faultLog() string { return filepath.Join(h.outputDir, "faults.log") }

// appendFaultReport appends the full report of a stage about a fault to the log.
func (h *testEnvironment) appendFaultReport(f fault, report string) error {
	log, err := os.OpenFile(h.faultLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(log, "%s, by %s:\n%s\n\n", f.name, f.stage, report)
	return errors.Join(err, log.Close())
}

// runWithFault runs the stage in an environment with the fault. It returns the
// errors of the stage and its proxies, or an empty text.
func (h *testEnvironment) runWithFault(ctx context.Context, f fault) (report string, err error) {
	dir, err := os.MkdirTemp("", "svc-fault-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// Observations with a fault must not count as observations of the servers.
	defer func(before string) { err = errors.Join(err, os.Setenv(contracttest.ObservationsVariable, before)) }(os.Getenv(contracttest.ObservationsVariable))
	if err := os.Setenv(contracttest.ObservationsVariable, filepath.Join(dir, "seen")); err != nil {
		return "", err
	}
	g, err := h.environmentWithFault(ctx, f, dir)
	if err != nil {
		return "", err
	}
	defer g.cloudProxy.close()
	if f.before != nil {
		if err := f.before(ctx, g); err != nil {
			return "", err
		}
	}
	index := slices.IndexFunc(stages(), func(s stage) bool { return s.name == f.stage })
	_, stageErr := stages()[index].run(g, ctx)
	_, violations := g.proxies.takeFindings(g.outputDir, f.stage)
	if stageErr == nil && violations == nil || ctx.Err() != nil {
		return "", ctx.Err()
	}
	log, err := os.ReadFile(filepath.Join(g.outputDir, f.stage+".log")) // the error of a tool has only the end of its log
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return fmt.Sprintf("%v\n%s", errors.Join(stageErr, violations), log), err
}

// environmentWithFault returns a second environment with the same servers and a
// fault.
func (h *testEnvironment) environmentWithFault(ctx context.Context, f fault, dir string) (*testEnvironment, error) {
	g := *h
	g.openapi, g.outputDir, g.observationsDir, g.only = filepath.Join(dir, "openapi"), dir, filepath.Join(dir, "seen"), f.only
	g.proxies, g.randomExamples = &proxies{}, 5
	if err := os.CopyFS(g.openapi, os.DirFS(h.openapi)); err != nil {
		return nil, err
	}
	for _, e := range f.edits {
		if err := e.apply(g.openapi); err != nil {
			return nil, err
		}
	}
	var err error
	if g.documents, err = loadDocuments(ctx, g.openapi); err != nil {
		return nil, err
	}
	g.cloudProxy, err = g.proxies.start(ctx, g.documents.cloud, serverURL(h.cloudPort), tamperingTransport{directTransport(), f.tampering})
	if err != nil {
		return nil, err
	}
	seed := *h.seed
	seed.CloudURL = g.cloudProxy.url
	g.seed = &seed
	return &g, writeSeed(g.seedFile(), g.seed)
}
