package releases_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/browser-svc/svc/openapi"
	"github.com/browser-svc/svc/scripts/releases"
	"github.com/browser-svc/svc/shared/testenv"
)

// edit is a replacement in one of the documents.
type edit struct{ file, old, new string }

// edited returns a copy of the documents with version 1.0.0 and the edits. Each
// edit replaces the first occurrence.
func edited(t *testing.T, edits ...edit) fstest.MapFS {
	t.Helper()
	copied := fstest.MapFS{}
	err := fs.WalkDir(openapi.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(openapi.Files, name)
		if err != nil {
			return err
		}
		text = versionPattern.ReplaceAll(text, []byte("${1}1.0.0"))
		for _, e := range edits {
			if e.file != name {
				continue
			}
			if !bytes.Contains(text, []byte(e.old)) {
				t.Fatalf("%s has no %q", name, e.old)
			}
			text = bytes.Replace(text, []byte(e.old), []byte(e.new), 1)
		}
		copied[name] = &fstest.MapFile{Data: text}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return copied
}

// versionEdit returns the edit that sets the version of the cloud's document.
func versionEdit(version string) edit {
	return edit{"cloud.yaml", "  version: 1.0.0\n", "  version: " + version + "\n"}
}

// versionPattern is the first version in a document, info.version.
var versionPattern = regexp.MustCompile(`(?s)^(.*?\n  version: )[0-9.]+`)

// build builds oasdiff in the directory that make contract uses.
func build(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	program, err := releases.BuildOasdiff(t.Context(), root, filepath.Join(root, "bin", "contract"))
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// What a change requires.
const (
	none  = ""
	minor = "set info.version to 1.1.0"
	major = "set info.version to 2.0.0"
)

// changeTest is a change of the documents, and what it requires.
type changeTest struct {
	name        string
	edits       []edit
	requirement string
	message     string // a part of the error message
}

func changeTests() []changeTest {
	named := func(id string) string { return "operationId: " + id + "\n" }
	return []changeTest{
		{"no change", nil, none, ""},
		{"a summary changes", []edit{{"cloud/accounts.yaml", "summary: Sign in\n", "summary: Come in\n"}}, none, ""},
		{"an operation is added", []edit{{"cloud.yaml", "\n  /v1/auth/sign-in: ", "\n  /v1/auth/sign-inn: {$ref: 'cloud/accounts.yaml#/paths/~1v1~1auth~1sign-inn'}\n  /v1/auth/sign-in: "}, {"cloud/accounts.yaml", "\n  /v1/auth/sign-in:\n", "\n  /v1/auth/sign-inn:\n    get: {operationId: getInn, tags: [Authentication], security: [], responses: {'204': {description: No.}}}\n  /v1/auth/sign-in:\n"}}, minor, "GET /v1/auth/sign-inn"},
		{"an optional request field is added", []edit{{"worker/sessions.yaml", "        keepAlive: {", "        keepMe: {type: boolean, description: Whether.}\n        keepAlive: {"}}, minor, "keepMe"},
		{"a response field is added", []edit{{"cloud/system.yaml", "        version: {type: string, maxLength: 64, description: The version of the service.}\n", "        version: {type: string, maxLength: 64, description: The version of the service.}\n        mood: {type: string, maxLength: 64, description: Its mood.}\n"}}, minor, "mood"},
		{"an operationId is renamed", []edit{{"cloud/accounts.yaml", named("signIn"), named("signOn")}}, major, "signIn"},
		{"an operation is removed", []edit{{"cloud.yaml", "\n  /v1/plans: ", "\n  /v1/plan: "}}, major, "GET /v1/plans"},
		{"a schema is renamed", []edit{{"shared.yaml", "    ErrorConstraint:\n", "    ErrorBounds:\n"}, {"shared.yaml", "schemas/ErrorConstraint'", "schemas/ErrorBounds'"}}, major, "ErrorConstraint"},
		{"a response property is renamed", []edit{{"cloud/system.yaml", "        version: {type: string, maxLength: 64, description: The version of the service.}\n", "        release: {type: string, maxLength: 64, description: The version of the service.}\n"}}, major, "version"},
		{"an optional response property is removed", []edit{{"shared.yaml", "        constraint: {$ref: '#/components/schemas/ErrorConstraint'}\n", ""}}, major, "constraint"},
		{"a request property is removed", []edit{{"worker/sessions.yaml", "        keepAlive: {type: boolean, default: false,", "        keptAlive: {type: boolean, default: false,"}}, major, "keepAlive"},
		{"a request property becomes required", []edit{{"worker/view.yaml", "      description: The lifetime of the ticket.\n", "      description: The lifetime of the ticket.\n      required: [ttlSeconds]\n"}}, major, "ttlSeconds"},
		{"an enum of a request narrows", []edit{{"cloud/keys.yaml", "enum: [createdAt, name, lastUsedAt]", "enum: [createdAt, name]"}}, major, "lastUsedAt"},
		{"an enum of a response widens", []edit{{"shared.yaml", "        - INTERNAL_ERROR\n", "        - INTERNAL_ERROR\n        - OTHER_ERROR\n"}}, major, "OTHER_ERROR"},
		{"a bound of a request narrows", []edit{{"shared.yaml", "schema: {type: integer, format: int32, minimum: 1, maximum: 100, default: 20}", "schema: {type: integer, format: int32, minimum: 1, maximum: 50, default: 20}"}}, major, "50"},
		{"a default changes", []edit{{"shared.yaml", "schema: {type: integer, format: int32, minimum: 1, maximum: 100, default: 20}", "schema: {type: integer, format: int32, minimum: 1, maximum: 100, default: 50}"}}, major, "20"},
		{"a success status changes", []edit{{"cloud/accounts.yaml", "        '201':\n          description: Signed in.", "        '200':\n          description: Signed in."}}, major, "201"},
		{"a failure status goes", []edit{{"cloud/accounts.yaml", "        '429': {$ref: '../shared.yaml#/components/responses/TooManyRequests'}\n", ""}}, major, "429"},
	}
}

// TestCompare_RequiresVersionBump compares copies of the documents with the documents as
// they are. At full depth, each copy is changed in one way. Otherwise, a copy has all
// changes with the same requirement, and the message must contain each of them.
func TestCompare_RequiresVersionBump(t *testing.T) {
	oasdiff := build(t)
	released := t.TempDir()
	if _, err := releases.Write(t.Context(), edited(t), released, false); err != nil {
		t.Fatal(err)
	}
	groups := combined(t, changeTests())
	if testenv.Full() {
		groups = nil
		for _, test := range changeTests() {
			groups = append(groups, []changeTest{test})
		}
	}
	for _, group := range groups {
		var edits []edit
		for _, test := range group {
			edits = append(edits, test.edits...)
		}
		t.Run(group[0].name, func(t *testing.T) {
			t.Parallel()
			_, err := releases.Comparer{Documents: edited(t, edits...), Released: released, Oasdiff: oasdiff, Work: t.TempDir()}.Run(t.Context())
			for _, test := range group {
				assertRequirement(t, err, test.requirement, test.message)
			}
		})
	}
}

// combined returns groups of tests with the same requirement, whose edits do not replace
// each other's texts.
func combined(t *testing.T, tests []changeTest) (groups [][]changeTest) {
	t.Helper()
	for _, test := range tests {
		i := slices.IndexFunc(groups, func(group []changeTest) bool {
			return group[0].requirement == test.requirement && !slices.ContainsFunc(group, func(other changeTest) bool { return overlap(other.edits, test.edits) })
		})
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], test)
	}
	if len(groups) == len(tests) {
		t.Fatal("no tests can be combined")
	}
	return groups
}

// overlap reports whether one of the edits replaces a text that one of the others replaces.
func overlap(some, others []edit) bool {
	return slices.ContainsFunc(some, func(a edit) bool {
		return slices.ContainsFunc(others, func(b edit) bool {
			return a.file == b.file && (strings.Contains(a.old, b.old) || strings.Contains(b.old, a.old))
		})
	})
}

func assertRequirement(t *testing.T, err error, requirement, message string) {
	t.Helper()
	switch {
	case requirement == "" && err != nil:
		t.Errorf("got %v", err)
	case requirement != "" && (err == nil || !strings.Contains(err.Error(), requirement) || !strings.Contains(err.Error(), message)):
		t.Errorf("got %v, want %q with %q", err, requirement, message)
	}
}

func TestWrite_KeepsReleases(t *testing.T) {
	released := t.TempDir()
	write := func(replace bool, edits ...edit) ([]string, error) {
		return releases.Write(t.Context(), edited(t, edits...), released, replace)
	}
	kept := filepath.Join(released, "cloud-1.0.0.yaml.gz")
	if files, err := write(false); err != nil || len(files) != 2 || files[0] != kept {
		t.Fatalf("first release: %q, %v", files, err)
	}
	before, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	if files, err := write(false); err != nil || len(files) != 0 {
		t.Errorf("unchanged: %q, %v", files, err)
	}
	words := edit{"cloud/accounts.yaml", "summary: Sign in\n", "summary: Come in\n"}
	if files, err := write(false, words); err == nil || len(files) != 0 || !strings.Contains(err.Error(), "set a new info.version in openapi/cloud.yaml") {
		t.Errorf("other text: %q, %v", files, err)
	}
	if after, err := os.ReadFile(kept); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the release was changed (%v)", err)
	}
	if files, err := write(false, words, versionEdit("1.0.1")); err != nil || len(files) != 1 {
		t.Errorf("new version: %q, %v", files, err)
	}
	if files, err := write(true, words); err != nil || len(files) != 1 || files[0] != kept {
		t.Errorf("replaced: %q, %v", files, err)
	}
}

func TestCompare_AcceptsRequiredVersion(t *testing.T) {
	oasdiff := build(t)
	released := t.TempDir()
	compare := func(edits ...edit) error {
		_, err := releases.Comparer{Documents: edited(t, edits...), Released: released, Oasdiff: oasdiff, Work: t.TempDir()}.Run(t.Context())
		return err
	}
	if err := compare(); err == nil || !strings.Contains(err.Error(), "run scripts/release-documents") {
		t.Errorf("without a release: %v", err)
	}
	for _, version := range []string{"1.9.0", "1.10.0"} { // the newest is not the last by name
		if _, err := releases.Write(t.Context(), edited(t, versionEdit(version)), released, false); err != nil {
			t.Fatal(err)
		}
	}
	renamed := edit{"cloud/accounts.yaml", "operationId: signIn\n", "operationId: signOn\n"}
	added := edit{"cloud/system.yaml", "        version: {type: string,", "        mood: {type: string, maxLength: 9, description: Its mood.}\n        version: {type: string,"}
	for _, test := range []struct {
		change      edit
		version     string
		requirement string
	}{
		{edit{}, "1.10.0", ""},
		{edit{}, "1.9.0", "set info.version to 1.10.0"},
		{added, "1.10.1", "set info.version to 1.11.0"},
		{added, "1.11.0", ""},
		{renamed, "1.11.0", "set info.version to 2.0.0"},
		{renamed, "2.0.0", ""},
	} {
		assertRequirement(t, compare(test.change, versionEdit(test.version)), test.requirement, "")
	}
}
