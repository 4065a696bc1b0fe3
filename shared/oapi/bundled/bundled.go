// Package bundled makes one document of the hand-written ones: it resolves what
// refers to other files, validates the whole, and bundles it. What runs reads the
// bundle, see oapi.Parse.
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

// Document is one loaded, valid and bundled OpenAPI 3.0 document.
type Document struct {
	*oapi.Document
	spec *openapi3.T
}

// T is the bundled document. It must not be changed.
func (d *Document) T() *openapi3.T { return d.spec }

// Load reads the document called name, resolving references to the other files
// of fsys, validates it, and bundles it to one without external references.
// Components keep their names; two different components that would share one
// are an error.
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
			return nil, fmt.Errorf("reference to %s: only files beside the document are read", location)
		}
		return fs.ReadFile(fsys, path.Clean(location.Path))
	}
	return loader.LoadFromURI(&url.URL{Path: name})
}

// publish renders the bundled document and loads it again from its own text,
// which proves that it stands alone.
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

// bundler names the components that bundling brings in from other files.
type bundler struct {
	sources map[string]string // collection/name -> where it comes from
	clashes []error
}

// newBundler knows the components that the root document has itself.
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
	if first, taken := b.sources[key]; taken && first != source.String() {
		b.clashes = append(b.clashes, fmt.Errorf("%s is both %s and %s", key, first, source.String()))
	}
	b.sources[key] = source.String()
	return name
}
