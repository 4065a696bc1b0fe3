package app

import (
	"os"
	"slices"
	"strings"
	"testing"
)

const accessTable = "testdata/access.md"

const accessHeading = `# Who may do what

Every operation of the cloud, asked with every credential; written by ` + "`go test ./cloud/internal/app -run Credential -update`" + `.
The organization that is asked about has an owner, an admin, a member and keys. *None active* is an owner whose session has
no active organization. *Another active* is an owner whose session's active organization is another one. *Elsewhere* is of another organization, and asks about this one where the request names something.
A *removed member* has a session in which the organization is still the active one.

A refusal has the code that its status has nearly always, and is spelled out where it is another one: 400
VALIDATION_ERROR, 401 AUTHENTICATION_ERROR, 403 AUTHORIZATION_ERROR, 404 RESOURCE_NOT_FOUND, 409 RESOURCE_CONFLICT.

`

// render writes the outcomes as a table, a row for each request.
func render(rows [][]outcome) string {
	var b strings.Builder
	b.WriteString(accessHeading)
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

// checkTable compares the outcomes with the table, or rewrites it.
func checkTable(t *testing.T, rows [][]outcome) {
	t.Helper()
	got := render(rows)
	if *update {
		if err := os.WriteFile(accessTable, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(accessTable)
	if err != nil {
		t.Fatal(err)
	}
	is, was := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for _, change := range []struct {
		sign           string
		lines, without []string
	}{{"-", was, is}, {"+", is, was}} {
		for _, line := range change.lines {
			if !slices.Contains(change.without, line) {
				t.Errorf("%s (rewrite it with -update, if that is right)\n%s %s", accessTable, change.sign, line)
			}
		}
	}
}
