package releases

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// levels are the changes that oasdiff considers harmless but that break clients,
// such as renamed operations, which rename the methods of generated SDKs.
//
//go:embed levels.txt
var levels []byte

// Comparer compares documents with their latest releases.
type Comparer struct {
	Documents fs.FS  // cloud.yaml, worker.yaml and the files that they reference
	Released  string // the directory of releases
	Oasdiff   string // the path of the program
	Work      string // a directory for temporary files
}

// change is a finding of oasdiff.
type change struct {
	ID        string `json:"id"`
	Text      string `json:"text"`
	Level     int    `json:"level"` // 1: compatible, 2: may break clients, 3: breaks clients
	Method    string `json:"operation"`
	Operation string `json:"operationId"`
	Path      string `json:"path"`
}

func (c change) isBreaking() bool { return c.Level > 1 }

func (c change) String() string {
	place := strings.TrimSpace(c.Method + " " + c.Path)
	return strings.TrimSpace(place+" "+cmp.Or(c.Text, c.ID)) + " [" + c.ID + "]"
}

// Run compares each document and returns a summary. Its error contains the
// problems and the version to set.
func (c Comparer) Run(ctx context.Context) (summary string, err error) {
	if err := os.MkdirAll(c.Work, 0o755); err != nil {
		return "", err
	}
	var found []string
	var wrong []error
	for _, name := range Names() {
		comparison, err := c.document(ctx, name)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		found = append(found, comparison)
	}
	return strings.Join(found, "; "), errors.Join(wrong...)
}

func (c Comparer) document(ctx context.Context, name string) (string, error) {
	released, before, err := latest(c.Released, name)
	if err != nil {
		return "", err
	}
	d, err := load(ctx, c.Documents, name)
	if err != nil {
		return "", err
	}
	working := filepath.Join(c.Work, name+".yaml")
	if err := os.WriteFile(working, d.text, 0o600); err != nil {
		return "", err
	}
	old, err := read(released)
	if err != nil {
		return "", err
	}
	var changes []change
	if !bytes.Equal(old, d.text) { // else the comparison takes seconds for nothing
		baseline := filepath.Join(c.Work, name+"-released.yaml")
		if err := os.WriteFile(baseline, old, 0o600); err != nil {
			return "", err
		}
		if changes, err = c.changes(ctx, baseline, working); err != nil {
			return "", err
		}
	}
	broken := 0
	for _, each := range changes {
		if each.isBreaking() {
			broken++
		}
	}
	if required, why := before.after(len(changes), broken); d.version.compare(required) < 0 {
		return "", fmt.Errorf("%s.yaml is version %s, and %s since release %s: set info.version to %s, or revert:\n%s",
			name, d.version, why, before, required, list(changes, broken > 0))
	}
	return fmt.Sprintf("%s %s: %d breaking and %d other changes since %s", name, d.version, broken, len(changes)-broken, before), nil
}

// after returns the lowest version that may follow, and the reason.
func (v version) after(changes, broken int) (least version, why string) {
	switch {
	case broken > 0:
		return version{major: v.major + 1}, fmt.Sprintf("%d changes break clients", broken)
	case changes > 0:
		return version{major: v.major, minor: v.minor + 1}, fmt.Sprintf("%d compatible changes were made", changes)
	}
	return v, "there are no changes"
}

// list shows the changes that ask for the new version.
func list(changes []change, breaking bool) string {
	var lines strings.Builder
	for _, each := range changes {
		if each.isBreaking() == breaking {
			fmt.Fprintf(&lines, "  - %s\n", each)
		}
	}
	return strings.TrimSuffix(lines.String(), "\n")
}

func (c Comparer) changes(ctx context.Context, before, after string) ([]change, error) {
	file := filepath.Join(c.Work, "levels.txt")
	if err := os.WriteFile(file, levels, 0o600); err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, c.Oasdiff, "changelog", "--format", "json",
		"--allow-external-refs=false", "--severity-levels", file, before, after).Output()
	if err != nil {
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		return nil, fmt.Errorf("oasdiff: %w", err)
	}
	var changes []change
	if len(out) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(out, &changes); err != nil {
		return nil, fmt.Errorf("oasdiff: %w", err)
	}
	return changes, nil
}

// BuildOasdiff builds the program that compares, in the repository at root, puts
// it into dir, an absolute path, and returns where it is.
func BuildOasdiff(ctx context.Context, root, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "oasdiff")
	build := exec.CommandContext(ctx, "go", "build", "-modfile=scripts/tools/oasdiff/go.mod", "-o", path, "github.com/oasdiff/oasdiff")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build oasdiff: %w: %s", err, out)
	}
	return path, nil
}
