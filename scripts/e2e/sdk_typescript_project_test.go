package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
)

const typeScriptSDK = root + "/openapi/sdk/typescript"

// sdkProject is an empty project with a packed SDK, and what its programs use.
type sdkProject struct {
	dir, modules string
	environment  map[string]string
	names        *strings.Replacer // fills the addresses of the examples
	outside      namespace
}

// packTypeScript packs the SDK once. It returns the path of the package.
var packTypeScript = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs(filepath.Join(root, "bin", "e2e"))
	if err != nil {
		return "", err
	}
	if out, err := exec.Command(filepath.Join(typeScriptSDK, "pack"), dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("pack: %w\n%s", err, out)
	}
	return filepath.Join(dir, "browser-svc-sdk.tgz"), nil
})

// newTypeScriptProject installs the packed SDK with npm in an empty directory, without
// the registry. The libraries are those of scripts/package.json.
func newTypeScriptProject(t *testing.T) sdkProject {
	t.Helper()
	modules, err := filepath.Abs(filepath.Join(root, "scripts", "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	p := sdkProject{dir: publicDir(t), modules: modules}
	packed, err := packTypeScript()
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, "package.json", `{"name":"empty","private":true,"type":"module"}`)
	began := time.Now()
	runIn(t, p.dir, "npm", "install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", packed, filepath.Join(modules, "ws"))
	t.Logf("npm install took %s", time.Since(began).Round(time.Millisecond))
	archive, err := os.Stat(packed)
	if err != nil {
		t.Fatal(err)
	}
	imported := runIn(t, p.dir, "node", "--eval", "const began = performance.now(); require('@browser-svc/sdk'); console.log(performance.now() - began)")
	t.Logf("the package has %d KB and loads in %.5s ms", archive.Size()>>10, imported)
	if testenv.Full() { // without the libraries, strictly and with the declarations of the package
		p.write(t, "alone.ts", `import { Svc } from "@browser-svc/sdk"; export const svc = new Svc({ worker: "", key: "" });`)
		runIn(t, p.dir, "node", append([]string{filepath.Join(modules, "typescript", "bin", "tsc"), "--noEmit", "alone.ts"}, strict...)...)
	}
	for _, name := range []string{"@types", "@playwright", "playwright-core", "puppeteer-core"} {
		if err := os.Symlink(filepath.Join(modules, name), filepath.Join(p.dir, "node_modules", name)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// strict are the options of tsc.
var strict = []string{"--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2023,esnext.disposable,dom,dom.iterable,dom.asynciterable"}

// compile compiles all programs, strictly.
func (p sdkProject) compile(t *testing.T) {
	t.Helper()
	programs, err := filepath.Glob(filepath.Join(p.dir, "*.ts"))
	if err != nil {
		t.Fatal(err)
	}
	arguments := append([]string{filepath.Join(p.modules, "typescript", "bin", "tsc"), "--skipLibCheck", "--types", "node"}, strict...)
	runIn(t, p.dir, "node", append(arguments, programs...)...)
}

// run runs a program in a network namespace and returns what it prints.
func (p sdkProject) run(t *testing.T, name string) []string {
	t.Helper()
	var printed []string
	input := map[string]any{"project": p.dir, "name": name, "environment": p.environment}
	if err := p.outside.run(t, input, &printed, "node", "clients/sdk/example.mjs"); err != nil {
		t.Fatal(err)
	}
	return printed
}

// example returns a block of the README.
func (p sdkProject) example(t *testing.T, name string) string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(typeScriptSDK, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)<!-- example: " + name + " -->\n```ts\n(.*?)```").FindSubmatch(readme)
	if found == nil {
		t.Fatalf("the README has no example %s", name)
	}
	return string(found[1])
}

func (p sdkProject) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// codeLines counts the lines of a program that are neither empty nor comments.
func codeLines(program string) int {
	count := 0
	for line := range strings.Lines(program) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			count++
		}
	}
	return count
}

// runIn runs a command in a directory and returns its output.
func runIn(t *testing.T, dir, name string, arguments ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, arguments...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, arguments, err, out)
	}
	return string(out)
}
