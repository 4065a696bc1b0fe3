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

const (
	monitoring = "../monitoring"
	operations = "../../openapi/operations"
	maxFile    = 100_000 // bytes of a generated dashboard
)

// readAll returns the files that match the pattern, by path.
func readAll(t *testing.T, pattern string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
	}
	all := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = string(text)
	}
	return all
}

// metric matches the name of a metric of svc, not the uid of a dashboard.
var metric = regexp.MustCompile(`\bsvc_(?:cloud|worker)_[a-z0-9_]+`)

// TestMonitoring_UsesExistingMetrics: the rules, their tests and the dashboards use only
// metrics that METRICS.md lists.
func TestMonitoring_UsesExistingMetrics(t *testing.T) {
	var listed []string
	for _, text := range readAll(t, operations+"/METRICS.md") {
		listed = append(listed, metric.FindAllString(text, -1)...)
	}
	for _, pattern := range []string{"/rules/*.yaml", "/tests/*.yaml", "/dashboards/*.json"} {
		for path, text := range readAll(t, monitoring+pattern) {
			if len(text) > maxFile {
				t.Errorf("%s has %d bytes", path, len(text))
			}
			for _, name := range metric.FindAllString(text, -1) {
				base := name
				for _, suffix := range []string{"_bucket", "_sum", "_count"} {
					base = strings.TrimSuffix(base, suffix)
				}
				if !slices.Contains(listed, name) && !slices.Contains(listed, base) {
					t.Errorf("%s uses %s, which METRICS.md does not list", path, name)
				}
			}
		}
	}
}

var (
	runbook = regexp.MustCompile(`runbook_url: \S+/openapi/operations/RUNBOOK\.md#(\S+)`)
	heading = regexp.MustCompile(`(?m)^## (Svc\w+)$`)
)

// TestAlerts_HaveRunbookSectionsAndTests: each alert links to its own section of
// RUNBOOK.md, and a unit test fires it. No section is left without an alert.
func TestAlerts_HaveRunbookSectionsAndTests(t *testing.T) {
	var tests string
	for _, text := range readAll(t, monitoring+"/tests/*.yaml") {
		tests += text
	}
	var sections, alerts []string
	for _, match := range heading.FindAllStringSubmatch(readAll(t, operations+"/RUNBOOK.md")[filepath.Clean(operations+"/RUNBOOK.md")], -1) {
		sections = append(sections, match[1])
	}
	for path, text := range readAll(t, monitoring+"/rules/*.yaml") {
		rules := strings.Split(text, "- alert: ")[1:]
		for _, rule := range rules {
			name, _, _ := strings.Cut(rule, "\n")
			alerts = append(alerts, name)
			if link := runbook.FindStringSubmatch(rule); link == nil || link[1] != strings.ToLower(name) {
				t.Errorf("%s: the runbook_url of %s does not end in RUNBOOK.md#%s", path, name, strings.ToLower(name))
			}
			if !slices.Contains(sections, name) {
				t.Errorf("RUNBOOK.md has no section %s", name)
			}
			if !regexp.MustCompile(`alertname: ` + name + `\b(?:[^-]|-[^ ])*?exp_alerts`).MatchString(tests) {
				t.Errorf("no test fires %s", name)
			}
		}
	}
	for _, section := range sections {
		if !slices.Contains(alerts, section) {
			t.Errorf("RUNBOOK.md describes %s, which is not an alert", section)
		}
	}
}

// logged matches a message in LOGS.md with its level.
var logged = regexp.MustCompile("(?m)^\\| (INFO|WARN|ERROR) \\| `([^`]+)` \\|")

// logCall matches the level and the message of a call that logs.
var logCall = regexp.MustCompile(`\b(?:(Info|Warn|Error)(?:Context)?\(|Level(Info|Warn|Error), )(?:[\w.]+\(?\)?, )?"([^"\n]+)"`)

// TestLogs_ListsExistingMessages: the programs log each message of LOGS.md at its level.
func TestLogs_ListsExistingMessages(t *testing.T) {
	code := map[string]string{}
	for _, program := range []string{"cloud", "worker", "shared", "db"} {
		err := filepath.WalkDir("../../"+program, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			code[program] += string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	places := map[string]map[string]bool{}
	for place, text := range map[string]string{
		"the cloud": code["cloud"] + code["db"] + code["shared"], "the worker": code["worker"] + code["shared"], "both": code["shared"],
	} {
		places[place] = map[string]bool{}
		for _, call := range logCall.FindAllStringSubmatch(text, -1) {
			places[place][strings.ToUpper(call[1]+call[2])+" "+call[3]] = true
		}
	}
	count := 0
	text := readAll(t, operations+"/LOGS.md")[filepath.Clean(operations+"/LOGS.md")]
	for _, section := range strings.Split(text, "## Messages of ")[1:] {
		program, list, _ := strings.Cut(section, "\n")
		for _, match := range logged.FindAllStringSubmatch(list, -1) {
			count++
			if !places[program][match[1]+" "+match[2]] {
				t.Errorf("%s do not log %q at %s", program, match[2], match[1])
			}
		}
	}
	if count < 20 {
		t.Errorf("found only %d messages in LOGS.md", count)
	}
}

// link matches a link to a file, and its anchor.
var link = regexp.MustCompile(`\]\(([^):#]*)(?:#([^)]+))?\)`)

// TestOperations_LinksExist checks the links between the documents, with their anchors.
func TestOperations_LinksExist(t *testing.T) {
	for path, text := range readAll(t, operations+"/*.md") {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target := path
			if match[1] != "" {
				target = filepath.Join(filepath.Dir(path), match[1])
			}
			info, err := os.Stat(target)
			if err != nil {
				t.Errorf("%s links to %s: %v", path, match[1], err)
				continue
			}
			if match[2] == "" || info.IsDir() {
				continue
			}
			into, err := os.ReadFile(target)
			if err != nil {
				t.Fatal(err)
			}
			if !regexp.MustCompile(`(?im)^#+ ` + strings.ReplaceAll(regexp.QuoteMeta(match[2]), "-", "[ -]") + `$`).Match(into) {
				t.Errorf("%s links to %s#%s, which is not a heading", path, match[1], match[2])
			}
		}
	}
}
