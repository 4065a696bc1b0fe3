package app

import (
	"os"
	"slices"
	"strings"
	"testing"
)

const accessTable = "testdata/access.md"

const accessHeading = `# Access by credential

The answer of every operation to every credential. Update with ` + "`go test ./cloud/internal/app -run TestAccess -update`" + `.
The organization has an owner, an admin, a member and keys. *None active*: an owner without an active organization in the
session. *Another active*: an owner with another active organization. *Elsewhere*: a credential of another organization;
requests that name a resource name one of this organization. *Removed member*: the organization is still active in the session.

The error code is shown if it is not the default code of the status: 400
VALIDATION_ERROR, 401 AUTHENTICATION_ERROR, 403 AUTHORIZATION_ERROR, 404 RESOURCE_NOT_FOUND, 409 RESOURCE_CONFLICT.

`

// render returns the outcomes as a table with one row per request.
func render(heading string, requests []request, credentials []credential, rows [][]outcome) string {
	var b strings.Builder
	b.WriteString(heading)
	line := func(first string, cells []string) {
		b.WriteString("| " + first + " | " + strings.Join(cells, " | ") + " |\n")
	}
	names, rule := make([]string, len(credentials)), make([]string, len(credentials))
	for i, c := range credentials {
		names[i], rule[i] = c.name, "---"
	}
	line("Operation", names)
	line("---", rule)
	for i, row := range rows {
		cells := make([]string, len(row))
		for j, o := range row {
			cells[j] = o.String()
		}
		first := "`" + requests[i].operation + "`"
		if requests[i].what != "" {
			first += " " + requests[i].what
		}
		line(first, cells)
	}
	return b.String()
}

// checkTable compares a table with its file, or rewrites the file.
func checkTable(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	after, before := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for _, change := range []struct {
		sign           string
		lines, without []string
	}{{"-", before, after}, {"+", after, before}} {
		for _, line := range change.lines {
			if !slices.Contains(change.without, line) {
				t.Errorf("%s (if the change is intended, update the file with -update)\n%s %s", file, change.sign, line)
			}
		}
	}
}
