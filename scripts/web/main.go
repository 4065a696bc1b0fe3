// web generates the web applications: the types and the input rules of the API
// documents for TypeScript (gen/web), and the bundles of the dashboard
// (gen/dashboard) and the console (gen/console). It needs the npm packages of
// shared/web.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// modules contains the npm packages of both applications.
const modules = "shared/web/node_modules"

// document is an API document and the file names of its generated TypeScript.
type document struct{ api, name string }

// application is a web application and its generated Go package.
type application struct{ source, packageName, description string }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}

func run() error {
	if err := os.MkdirAll("gen/web", 0o755); err != nil {
		return err
	}
	for _, d := range []document{{"cloudapi", "cloud"}, {"workerapi", "worker"}} {
		if err := d.generate(); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
	}
	for _, a := range []application{
		{"cloud/dashboard", "dashboard", "the dashboard of the cloud"},
		{"worker/console", "console", "the console of the worker"},
	} {
		if err := a.bundle(); err != nil {
			return fmt.Errorf("%s: %w", a.packageName, err)
		}
	}
	return nil
}

// generate writes the types and the input rules of the document.
func (d document) generate() error {
	source := filepath.Join("gen", d.api, "openapi.json")
	types := exec.Command("node", filepath.Join(modules, "openapi-typescript/bin/cli.js"), //nolint:noctx // until it ends
		source, "--output", filepath.Join("gen/web", d.name+".ts"))
	if output, err := types.CombinedOutput(); err != nil {
		return fmt.Errorf("openapi-typescript: %w: %s", err, output)
	}
	rules, err := inputRules(source)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("gen/web", d.name+"-rules.ts"), rules, 0o644)
}
