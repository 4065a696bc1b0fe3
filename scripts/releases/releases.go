// Package releases stores released OpenAPI documents, bundled, in openapi/released,
// and compares the current documents with the latest release: a breaking change
// requires a new major version, any other change a new minor version.
package releases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/browser-svc/svc/shared/oapi/bundled"
)

// Names are the documents.
func Names() []string { return []string{"cloud", "worker"} }

// document is the current version of a document.
type document struct {
	version version
	text    []byte // bundled, as YAML
}

func load(ctx context.Context, documents fs.FS, name string) (document, error) {
	loaded, err := bundled.Load(ctx, documents, name+".yaml")
	if err != nil {
		return document{}, err
	}
	v, err := parseVersion(loaded.ContractVersion())
	if err != nil {
		return document{}, fmt.Errorf("%s.yaml: info.%w", name, err)
	}
	return document{version: v, text: loaded.YAML()}, nil
}

// Write writes the documents to the directory released, named by their version, and
// returns the files. Changing a released version is an error, unless replace is set.
func Write(ctx context.Context, documents fs.FS, released string, replace bool) ([]string, error) {
	texts, order := map[string][]byte{}, []string{}
	for _, name := range Names() {
		d, err := load(ctx, documents, name)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(released, name+"-"+d.version.String()+".yaml")
		before, err := os.ReadFile(file)
		switch {
		case err == nil && bytes.Equal(before, d.text):
			continue
		case err == nil && !replace:
			return nil, fmt.Errorf("%s is already released and differs: set a new info.version in openapi/%s.yaml", file, name)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		texts[file], order = d.text, append(order, file)
	}
	for i, file := range order {
		if err := os.WriteFile(file, texts[file], 0o644); err != nil {
			return order[:i], err
		}
	}
	return order, nil
}

// latest finds the newest released version of a document.
func latest(released, name string) (file string, newest version, err error) {
	files, err := filepath.Glob(filepath.Join(released, name+"-*.yaml"))
	if err != nil {
		return "", newest, err
	}
	for _, candidate := range files {
		text := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(candidate), name+"-"), ".yaml")
		v, err := parseVersion(text)
		if err != nil {
			return "", newest, fmt.Errorf("%s: %w", candidate, err)
		}
		if file == "" || v.compare(newest) > 0 {
			file, newest = candidate, v
		}
	}
	if file == "" {
		return "", newest, fmt.Errorf("%s contains no release of %s: run scripts/release-documents", released, name)
	}
	return file, newest, nil
}
