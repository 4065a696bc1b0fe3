// Package bundled bundles the hand-written OpenAPI documents: it resolves
// references to other files, validates the result and writes it as one document.
// The programs read the bundle with oapi.Parse.
package bundled

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/browser-svc/svc/shared/oapi"
)

// Document is a validated and bundled OpenAPI 3.0 document.
type Document struct {
	*oapi.Document
	spec *openapi3.T
}

// T returns the bundled document. The caller must not modify it.
func (d *Document) T() *openapi3.T { return d.spec }

// Load loads and validates the document name, resolving references to other files
// of fsys, and bundles it without external references. Components keep their
// names; different components with the same name are an error. Enums get names of
// constants for code generators.
func Load(ctx context.Context, fsys fs.FS, name string) (*Document, error) {
	doc, err := read(ctx, fsys, name)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", name, err)
	}
	if err := doc.Validate(ctx); err != nil {
		return nil, fmt.Errorf("validate %s: %w", name, err)
	}
	bundle, err := newBundler(name, doc)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", name, err)
	}
	doc.InternalizeRefs(ctx, bundle.name)
	if len(bundle.clashes) > 0 {
		return nil, fmt.Errorf("bundle %s: %w", name, errors.Join(bundle.clashes...))
	}
	nameEnumValues(doc)
	d, err := publish(ctx, doc)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", name, err)
	}
	return d, nil
}

func read(ctx context.Context, fsys fs.FS, name string) (*openapi3.T, error) {
	loader := openapi3.NewLoader()
	loader.Context = ctx
	loader.IsExternalRefsAllowed = true
	loader.ReadFromURIFunc = func(_ *openapi3.Loader, location *url.URL) ([]byte, error) {
		if location.Scheme != "" || location.Host != "" {
			return nil, fmt.Errorf("reference to %s: only references to local files are supported", location)
		}
		file := path.Clean(location.Path)
		text, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, err
		}
		included, err := Include(fsys, file, text)
		return []byte(included), err
	}
	return loader.LoadFromURI(&url.URL{Path: name})
}

// publish encodes the bundled document and loads it again, which verifies that it
// has no external references.
func publish(ctx context.Context, bundled *openapi3.T) (*Document, error) {
	text, err := bundled.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, fmt.Errorf("read back: %w", err)
	}
	if err := doc.Validate(ctx); err != nil {
		return nil, fmt.Errorf("validate: %w", err)
	}
	parsed, err := oapi.Parse(text)
	if err != nil {
		return nil, err
	}
	return &Document{parsed, doc}, nil
}

// bundler names the components of other files.
type bundler struct {
	sources map[string]string // collection/name -> source reference
	clashes []error
}

// newBundler registers the components of the root document.
func newBundler(root string, doc *openapi3.T) (*bundler, error) {
	b := &bundler{sources: map[string]string{}}
	text, err := json.Marshal(doc.Components)
	if err != nil {
		return nil, fmt.Errorf("encode components: %w", err)
	}
	var collections map[string]map[string]struct {
		Ref string `json:"$ref"`
	}
	if err := json.Unmarshal(text, &collections); err != nil {
		return nil, fmt.Errorf("decode components: %w", err)
	}
	for collection, components := range collections {
		for name, component := range components {
			source := root + "#/components/" + collection + "/" + name
			if component.Ref != "" && component.Ref[0] != '#' {
				source = path.Join(path.Dir(root), component.Ref)
			}
			b.sources[collection+"/"+name] = source
		}
	}
	return b, nil
}

func (b *bundler) name(_ *openapi3.T, ref openapi3.ComponentRef) string {
	source := *ref.RefPath()
	name := path.Base(source.Fragment)
	if source.Fragment == "" {
		name, _, _ = strings.Cut(path.Base(source.Path), ".")
	}
	key := ref.CollectionName() + "/" + name
	if first, exists := b.sources[key]; exists && first != source.String() {
		b.clashes = append(b.clashes, fmt.Errorf("duplicate component %s: %s and %s", key, first, source.String()))
	}
	b.sources[key] = source.String()
	return name
}
