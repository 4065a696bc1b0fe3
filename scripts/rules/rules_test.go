// Package rules tests the import rules and the lint rules of the project.
package rules

import (
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/browser-svc/svc/"

// packageList is the output of go list for all packages of the module: each with its direct imports (without those of
// its tests).
var packageList = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	return string(out), err
})

// imports returns the packages of the module below a folder, "" for all, each with its direct imports.
func imports(t *testing.T, folder string) map[string][]string {
	t.Helper()
	lines, err := packageList()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	found := map[string][]string{}
	for line := range strings.Lines(lines) {
		fields := strings.Fields(line)
		if name := strings.TrimPrefix(fields[0], module); strings.HasPrefix(name+"/", folder) {
			found[name] = fields[1:]
		}
	}
	if len(found) == 0 {
		t.Fatalf("no package is below %s", folder)
	}
	return found
}

// groups lists the folders of each program, and which other folders their packages
// may import. ARCHITECTURE.md shows the same table as a drawing.
var groups = map[string]map[string][]string{
	"cloud/internal/": {
		"app":      {"api", "accounts", "tenancy", "browsers", "license", "platform"},
		"api":      {"accounts", "tenancy", "browsers", "license", "platform"},
		"accounts": {"platform"},
		"tenancy":  {"platform"},
		"browsers": {},
		"license":  {},
		"platform": {},
	},
	"worker/internal/": {
		"app":      {"api", "auth", "cloud", "session", "browser", "data", "media", "host", "cdp", "selftest"},
		"api":      {"auth", "session", "browser", "data", "media", "host", "cdp"},
		"auth":     {"session", "data", "cdp"},
		"cloud":    {"session", "browser"},
		"session":  {"browser", "data", "cdp"},
		"browser":  {"data", "host", "cdp"},
		"data":     {"cdp"},
		"media":    {"cdp"},
		"host":     {},
		"cdp":      {},
		"selftest": {"session", "browser", "cdp"},
		"testing":  {"browser", "cdp"},
	},
}

func TestImports_FollowGroups(t *testing.T) {
	for root, allowed := range groups {
		existing := map[string]bool{}
		for name, deps := range imports(t, root) {
			group, _, _ := strings.Cut(strings.TrimPrefix(name, root), "/")
			permitted, ok := allowed[group]
			if !ok {
				t.Errorf("%s is in the unknown folder %s: add it to groups", name, group)
			}
			existing[group] = true
			for _, dep := range deps {
				path, inside := strings.CutPrefix(dep, module+root)
				other, _, _ := strings.Cut(path, "/")
				if inside && other != group && !slices.Contains(permitted, other) {
					t.Errorf("%s imports %s: packages of %s must not import packages of %s", name, path, group, other)
				}
			}
		}
		for group := range allowed {
			if !existing[group] {
				t.Errorf("%s%s does not exist: remove it from groups", root, group)
			}
		}
	}
}

func TestImports_DomainsAreIndependent(t *testing.T) {
	const root = "cloud/internal/"
	domains := []string{"tenancy/org", "tenancy/apikey", "tenancy/plan", "tenancy/billing", "tenancy/usage",
		"browsers/profile", "browsers/profiledata", "browsers/catalog", "browsers/activity", "license",
		"platform/mail", "platform/contact", "platform/audit", "platform/idempotency", "platform/retention"}
	all := imports(t, root)
	for _, domain := range domains {
		deps, ok := all[root+domain]
		if !ok {
			t.Errorf("%s does not exist: update the list of domains", domain)
		}
		for _, dep := range deps {
			if dep == "net/http" || strings.Contains(dep, "labstack/echo") || strings.HasPrefix(dep, module+"gen/") {
				t.Errorf("%s imports %s: a domain package must not import web packages", domain, dep)
			}
			if other, inside := strings.CutPrefix(dep, module+root); inside && slices.Contains(domains, other) {
				t.Errorf("%s imports %s: only app may connect domain packages", domain, other)
			}
		}
	}
}

func TestImports_ProgramsShareOnlyShared(t *testing.T) {
	for _, side := range []struct{ folder, other string }{{"cloud/", "worker/"}, {"worker/", "cloud/"}} {
		for name, deps := range imports(t, side.folder) {
			for _, dep := range deps {
				if strings.HasPrefix(dep, module+side.other) {
					t.Errorf("%s imports %s", name, dep)
				}
			}
		}
	}
	for name, deps := range imports(t, "shared/") {
		for _, dep := range deps {
			if strings.HasPrefix(dep, module+"cloud/") || strings.HasPrefix(dep, module+"worker/") || strings.HasPrefix(dep, module+"db") {
				t.Errorf("%s imports %s: shared packages must not import program packages", name, dep)
			}
		}
	}
}

// TestImports_ClientsUseOnlyAPI: the command line and the SDK use what every client can use.
func TestImports_ClientsUseOnlyAPI(t *testing.T) {
	for folder, permitted := range map[string][]string{
		"openapi/sdk/": {"gen/"},
		"worker/cmd/":  {"gen/", "openapi/sdk/", "shared/program", "shared/ws"},
	} {
		for name, deps := range imports(t, folder) {
			for _, dep := range deps {
				path, inside := strings.CutPrefix(dep, module)
				if inside && !slices.ContainsFunc(permitted, func(prefix string) bool { return strings.HasPrefix(path, prefix) }) {
					t.Errorf("%s imports %s: use the public API", name, path)
				}
			}
		}
	}
}

func TestImports_WorkerHasNoDatabase(t *testing.T) {
	for name, deps := range imports(t, "worker/") {
		for _, dep := range deps {
			if dep == "database/sql" || strings.HasPrefix(dep, module+"db") {
				t.Errorf("%s imports %s", name, dep)
			}
		}
	}
}

// TestImports_ProgramsContainNoTestCode keeps the fakes of tests out of the programs, and kin-openapi:
// it would cost time and memory at every start.
func TestImports_ProgramsContainNoTestCode(t *testing.T) {
	for _, program := range []string{"./cloud", "./worker", "./worker/cmd/svc"} {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", program)
		cmd.Dir = "../.."
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list -deps %s: %v", program, err)
		}
		for dep := range strings.Lines(string(out)) {
			if strings.HasPrefix(dep, "github.com/getkin/kin-openapi") {
				t.Errorf("%s depends on %s: use the bundled document of gen/ with shared/oapi", program, strings.TrimSpace(dep))
			}
			if strings.HasPrefix(dep, module+"worker/internal/testing/") {
				t.Errorf("%s depends on %s, which is for tests only", program, strings.TrimSpace(dep))
			}
		}
	}
}

func TestImports_OneWebSocketPackage(t *testing.T) {
	for name, deps := range imports(t, "") {
		if name != "shared/ws" && slices.Contains(deps, "nhooyr.io/websocket") {
			t.Errorf("%s imports the WebSocket library: use shared/ws", name)
		}
	}
}

func TestImports_OnlyAppWiresPackages(t *testing.T) {
	for name, deps := range imports(t, "") {
		if strings.HasSuffix(name, "/app") || strings.Contains(name, "scripts/") {
			continue
		}
		for _, dep := range deps {
			isMain := name == "cloud" || name == "worker"
			if strings.HasSuffix(dep, "/internal/app") && strings.HasPrefix(dep, module) && !isMain {
				t.Errorf("%s imports %s: only a main package may do this", name, dep)
			}
		}
	}
}
