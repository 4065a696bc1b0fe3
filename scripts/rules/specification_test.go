package rules

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// citation matches "specification 3.2", "specification 4.4, 5.1 and 5.5" and
// "DESIGN 6", also where a comment breaks the line after the word.
var citation = regexp.MustCompile(`\b([Ss]pecification|DESIGN)[ \t]*(?:\n[ \t]*(?://|#|--|\*)?[ \t]*)?[ ]?([0-9]+(?:\.[0-9]+)*(?:(?:, | and )[0-9]+(?:\.[0-9]+)*)*)`)

var number = regexp.MustCompile(`[0-9]+(?:\.[0-9]+)*`)

// section matches a heading "### 3.2 Title" and a numbered rule "- **5.5.3** Text".
var section = regexp.MustCompile(`(?m)^(?:#+ ([0-9]+(?:\.[0-9]+)*)\.? |- \*\*([0-9]+(?:\.[0-9]+)*)\*\* )`)

// sections returns the numbers that a document defines.
func sections(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, match := range section.FindAllStringSubmatch(string(text), -1) {
		found = append(found, match[1]+match[2])
	}
	return found
}

// citedSections returns the section numbers that the text cites, of each document.
func citedSections(text string) map[string][]string {
	cited := map[string][]string{}
	for _, match := range citation.FindAllStringSubmatch(text, -1) {
		document := strings.ToUpper(match[1])
		cited[document] = append(cited[document], number.FindAllString(match[2], -1)...)
	}
	return cited
}

func TestCitedSections_FindsEveryForm(t *testing.T) {
	got := citedSections("(specification 4.4, 5.1 and 5.5)\n// (specification\n// 7.3.1; DESIGN 6). DESIGNED 9, specification of 8\n-- specification\n-- 3.2.")
	if want := []string{"4.4", "5.1", "5.5", "7.3.1", "3.2"}; !slices.Equal(got["SPECIFICATION"], want) {
		t.Errorf("specification: got %q, want %q", got["SPECIFICATION"], want)
	}
	if want := []string{"6"}; !slices.Equal(got["DESIGN"], want) {
		t.Errorf("DESIGN: got %q, want %q", got["DESIGN"], want)
	}
}

func TestCitations_NameExistingSections(t *testing.T) {
	defined := map[string][]string{
		"SPECIFICATION": sections(t, "../../openapi/SPECIFICATION.md"),
		"DESIGN":        sections(t, "../../openapi/DESIGN.md"),
	}
	total := 0
	for _, file := range writtenTexts(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document, numbers := range citedSections(string(text)) {
			for _, cited := range numbers {
				total++
				if !slices.Contains(defined[document], cited) {
					t.Errorf("%s cites section %s, which openapi/%s.md does not have", file, cited, document)
				}
			}
		}
	}
	if total < 100 {
		t.Errorf("only %d citations found: the pattern does not match them", total)
	}
}

// writtenTexts returns the files that are neither generated nor vendored: code,
// SQL, scripts and documents.
func writtenTexts(t *testing.T) []string {
	t.Helper()
	skipped := []string{".git", ".svc", "bin", "gen", "node_modules", "novnc", "swagger-ui"}
	extensions := []string{".go", ".sql", ".md", ".yaml", ".js", ".mjs", ".sh", ""}
	var files []string
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skipped, entry.Name()):
			return fs.SkipDir
		case entry.Type().IsRegular() && entry.Name() != "specification_test.go" && slices.Contains(extensions, filepath.Ext(path)):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
