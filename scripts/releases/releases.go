// Package releases keeps the documents as they were released, bundled to one
// file each, in openapi/released, and compares those that are worked on with the
// latest of them: what breaks a client needs a new major version, everything
// else that a client can notice a new minor one.
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

// document is one that is worked on.
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

// Write releases the documents: it writes each to released, as of its version,
// and returns the files. A version that is there already is released for good;
// to change it is an error, unless replace says that nobody has got it yet.
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
			return nil, fmt.Errorf("%s is released already, and differs: set a new info.version in openapi/%s.yaml", file, name)
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
		return "", newest, fmt.Errorf("%s holds no release of %s: run scripts/release-documents", released, name)
	}
	return file, newest, nil
}
