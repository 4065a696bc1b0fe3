package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/contracttest"
)

// fault replaces one text of testdata/sound.yaml to break one rule.
type fault struct{ rule, old, new string }

func faultsForSpectral() []fault {
	bounded := func(rule, old string) fault { return fault{rule, old, ""} }
	const summary, description = "      summary: Get a profile\n", "      description: The profile.\n      x-roles"
	return []fault{
		{"svc-operation-id", "operationId: getProfile", "operationId: profile_get"},
		{"svc-one-tag", "tags: [Profiles]", "tags: [Profiles, Profiles2]"},
		{"svc-roles-stated", "      x-roles: [owner]\n", ""},
		{"svc-security-stated", "      security: [{session: []}]\n", ""},
		{"svc-described", summary, ""},
		{"svc-described", description, "      x-roles"},
		{"svc-refusals", "        '404': &refusal", "        '500': &refusal"},
		{"svc-refusals", "        '400': *refusal\n", ""},
		{"svc-verdict", "        '400': *refusal\n", "        '400': {description: No., headers: *headers, content: *profile}\n"},
		{"svc-verdict", "          content: &profile\n            application/json:\n              schema: {$ref: '#/components/schemas/ProfileResponse'}", "          content: &profile\n            application/json:\n              schema: {$ref: '#/components/schemas/ErrorResponse'}"},
		{"svc-verdict", "success: {type: boolean, enum: [true],", "success: {type: boolean,"},
		{"svc-notice", "      x-sunset: '2027-07-01'\n", ""},
		{"svc-notice", "      x-deprecated-at: '2027-01-01'\n", ""},
		{"svc-notice", "x-sunset: '2027-07-01'", "x-sunset: '2027-06-30'"},
		{"svc-notice", "      deprecated: true\n", ""},
		{"svc-request-schema-named", "schema: {$ref: '#/components/schemas/ProfileRequest'}", "schema: {type: object, additionalProperties: false, properties: {name: {type: string, maxLength: 10}}}"},
		{"svc-response-schema-named", "schema: {$ref: '#/components/schemas/ErrorResponse'}", "schema: {type: object, properties: {success: {type: boolean, enum: [false]}}}"},
		{"svc-parameter-named", "parameters: [{$ref: '#/components/parameters/ProfileId'}]", "parameters: [{name: profileId, in: path, required: true, description: Its id., schema: {type: string, maxLength: 36}}]"},
		{"svc-no-inline-object", "data: {$ref: '#/components/schemas/Profile'}", "data: {type: object, description: It., properties: {name: {type: string, maxLength: 10}}}"},
		{"svc-no-inline-object", "items: {$ref: '#/components/schemas/Link'}", "items: {type: object, properties: {to: {type: string, maxLength: 10}}}"},
		{"svc-required", "required: [name, size, tags]", "required: [name, tags]"},
		{"svc-request-closed", "      additionalProperties: false\n", ""},
		{"svc-request-example", "            example: {name: one}\n", ""},
		{"svc-response-example", "              example: {success: false}\n", ""},
		{"svc-default-response", "        default: *refusal\n", ""},
		{"svc-request-id", "{X-Request-Id: {$ref: '#/components/headers/Text'}, X-Svc", "{X-Svc"},
		{"svc-contract", ", X-Svc-Contract: {$ref: '#/components/headers/Text'}}", "}"},
		{"svc-location", "            Location: {$ref: '#/components/headers/Text'}\n", ""},
		bounded("svc-integer-bounds", "format: int32, "),
		bounded("svc-integer-bounds", "minimum: 0, "),
		bounded("svc-integer-bounds", "maximum: 9, "),
		bounded("svc-string-length", "maxLength: 10, "),
		bounded("svc-array-length", "maxItems: 5, "),
		bounded("svc-map-size", "maxProperties: 5, "),
		bounded("svc-bounded", ", maxLength: 36"),
		bounded("svc-bounded", ", maxLength: 64"),
		{"svc-schema-described", "    Link:\n      description: A link.\n", "    Link:\n"},
		{"oas3-valid-media-example", "example: {name: one}", "example: {name: 1}"},
		{"operation-tag-defined", "tags: [Profiles]", "tags: [Plans]"},
		{"operation-operationId-unique", "operationId: updateProfile", "operationId: getProfile"},
	}
}

func faultsForRedocly() []fault {
	return []fault{
		{"operation-operationId-unique", "operationId: updateProfile", "operationId: getProfile"},
		{"operation-tag-defined", "tags: [Profiles]", "tags: [Plans]"},
		{"security-defined", "security: [{session: []}]", "security: [{passport: []}]"},
		{"tag-description", "  - {name: Profiles, description: Profiles.}\n", "  - {name: Profiles}\n"},
		{"path-parameters-defined", "    parameters: [{$ref: '#/components/parameters/ProfileId'}]\n", ""},
		{"no-unresolved-refs", "#/components/schemas/Link'", "#/components/schemas/Links'"},
	}
}

// TestLintRules_FindFaults lints the valid document and copies of it with one
// fault each, in one run of each linter.
func TestLintRules_FindFaults(t *testing.T) {
	sound, err := os.ReadFile("testdata/sound.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for linter, test := range map[string]struct {
		faults []fault
		lint   func(t *testing.T, files []string) map[string][]string
	}{
		"spectral": {faultsForSpectral(), spectral},
		"redocly":  {faultsForRedocly(), redocly},
	} {
		t.Run(linter, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			files := []string{filepath.Join(dir, "sound.yaml")}
			for i, f := range test.faults {
				if !bytes.Contains(sound, []byte(f.old)) {
					t.Fatalf("sound.yaml does not contain %q", f.old)
				}
				files = append(files, filepath.Join(dir, string(rune('a'+i/26))+string(rune('a'+i%26))+".yaml"))
				write(t, files[i+1], bytes.Replace(sound, []byte(f.old), []byte(f.new), 1))
			}
			write(t, files[0], sound)
			found := test.lint(t, files)
			if len(found[files[0]]) > 0 {
				t.Errorf("sound.yaml breaks the rules %q", found[files[0]])
			}
			for i, f := range test.faults {
				if !slices.Contains(found[files[i+1]], f.rule) {
					t.Errorf("%q instead of %q: no finding of %s, only %q", f.new, f.old, f.rule, found[files[i+1]])
				}
			}
		})
	}
}

// TestLintRules_HaveFaults checks that every project rule has a fault above.
func TestLintRules_HaveFaults(t *testing.T) {
	rules, err := os.ReadFile("../../openapi/spectral.yaml")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(rules)) {
		name, isRule := strings.CutSuffix(strings.TrimSpace(line), ":")
		if !isRule || !strings.HasPrefix(line, "  svc-") {
			continue
		}
		count++
		if !slices.ContainsFunc(faultsForSpectral(), func(f fault) bool { return f.rule == name }) {
			t.Errorf("rule %s has no fault in faultsForSpectral", name)
		}
	}
	if count == 0 {
		t.Error("found no rules in spectral.yaml")
	}
}

// TestOperationIDs_AreUnique checks both documents together, which a linter of
// one document cannot do.
func TestOperationIDs_AreUnique(t *testing.T) {
	places := map[string]string{}
	for _, name := range []string{"cloud.yaml", "worker.yaml"} {
		document := contracttest.Load(t, name)
		for path, item := range document.T().Paths.Map() {
			for method, operation := range item.Operations() {
				place := name + " " + method + " " + path
				if other, duplicate := places[operation.OperationID]; duplicate {
					t.Errorf("%s is the operationId of %s and of %s", operation.OperationID, other, place)
				}
				places[operation.OperationID] = place
			}
		}
	}
	if len(places) < 90 {
		t.Errorf("only %d operations were read", len(places))
	}
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// spectral returns the rules that each file breaks.
func spectral(t *testing.T, files []string) map[string][]string {
	t.Helper()
	var results []struct{ Code, Source string }
	if err := lintOutput(t, "spectral", append([]string{"lint", "--format", "json", "--ruleset", "../openapi/spectral.yaml"}, files...)).Decode(&results); err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, r := range results {
		found[r.Source] = append(found[r.Source], r.Code)
	}
	return found
}

// redocly returns the rules that each file breaks. The linter prints one report
// for each file, in the order of the files.
func redocly(t *testing.T, files []string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	reports := lintOutput(t, "redocly", append([]string{"lint", "--format=json", "--config", "../openapi/redocly.yaml"}, files...))
	for _, file := range files {
		var report struct {
			Problems []struct {
				RuleID string `json:"ruleId"`
			}
		}
		if err := reports.Decode(&report); err != nil {
			t.Fatalf("the report on %s: %v", file, err)
		}
		for _, problem := range report.Problems {
			found[file] = append(found[file], problem.RuleID)
		}
	}
	return found
}

// lintOutput runs a linter of scripts/package.json. The linter exits with an error
// if it has findings.
func lintOutput(t *testing.T, linter string, args []string) *json.Decoder {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "../npm-install").CombinedOutput(); err != nil {
		t.Fatalf("npm-install: %v\n%s", err, out)
	}
	command := exec.CommandContext(t.Context(), "npx", append([]string{"--no-install", linter}, args...)...)
	command.Dir = ".."
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatalf("%s printed nothing: %v\n%s", linter, err, &complaints)
	}
	return json.NewDecoder(bytes.NewReader(out))
}
