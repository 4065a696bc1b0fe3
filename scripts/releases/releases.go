// Package releases stores released OpenAPI documents, bundled and compressed, in
// openapi/released, and compares the current documents with the latest release: a breaking change
// requires a new major version, any other change a new minor version.
package releases

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/browser-svc/svc/shared/oapi/bundled"
)

// extension is the end of the name of a released document.
const extension = ".yaml.gz"

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
		file := filepath.Join(released, name+"-"+d.version.String()+extension)
		before, err := read(file)
		switch {
		case err == nil && bytes.Equal(before, d.text):
			continue
		case err == nil && !replace:
			return nil, fmt.Errorf("%s is already released and differs: set a new info.version in openapi/%s.yaml", file, name)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		compressed, err := compress(d.text)
		if err != nil {
			return nil, err
		}
		texts[file], order = compressed, append(order, file)
	}
	for i, file := range order {
		if err := os.WriteFile(file, texts[file], 0o644); err != nil {
			return order[:i], err
		}
	}
	return order, nil
}

func compress(text []byte) ([]byte, error) {
	var compressed bytes.Buffer
	w, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(text)
	err = errors.Join(err, w.Close())
	return compressed.Bytes(), err
}

// read returns the text of a released document.
func read(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return io.ReadAll(r)
}

// latest finds the newest released version of a document.
func latest(released, name string) (file string, newest version, err error) {
	files, err := filepath.Glob(filepath.Join(released, name+"-*"+extension))
	if err != nil {
		return "", newest, err
	}
	for _, candidate := range files {
		text := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(candidate), name+"-"), extension)
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
