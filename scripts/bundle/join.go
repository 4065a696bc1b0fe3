package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/browser-svc/svc/shared/oapi/bundled"
)

var (
	pathReference    = regexp.MustCompile(`(?m)^  (/[^\n]*): \{\$ref: '[^'#]*#/paths/[^']*'\}\n`)
	siblingReference = regexp.MustCompile(`'[a-z]+\.yaml#/components/`)
	pathLine         = regexp.MustCompile(`(?m)^  (/[^\n]*):\n`)
	collectionLine   = regexp.MustCompile(`(?m)^  ([a-zA-Z]+):\n`)
)

// join writes the documents of the directory openapi to the directory target. There,
// cloud.yaml contains the paths and components of cloud/*.yaml, and worker.yaml those
// of worker/*.yaml. Code generators and linters read the result.
func join(openapi, target string) error {
	for _, name := range []string{"cloud", "worker", "shared"} {
		text, err := read(openapi, name+".yaml")
		if err != nil {
			return err
		}
		joined, err := joinDocument(text, openapi, name)
		if err != nil {
			return fmt.Errorf("join %s.yaml: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(target, name+".yaml"), []byte(joined), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// read returns a document whose schemas have all their properties.
func read(openapi, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(openapi, name))
	if err != nil {
		return "", err
	}
	return bundled.Include(os.DirFS(openapi), filepath.ToSlash(name), text)
}

// joinDocument returns the document with the paths and components of the files in dir, a
// directory of openapi.
func joinDocument(document, openapi, dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(openapi, dir, "*.yaml"))
	if err != nil {
		return "", err
	}
	paths, components := map[string]string{}, map[string]string{}
	for _, file := range files {
		text, err := read(openapi, filepath.Join(dir, filepath.Base(file)))
		if err != nil {
			return "", err
		}
		local := strings.ReplaceAll(siblingReference.ReplaceAllString(text, "'#/components/"), "'../shared.yaml#", "'shared.yaml#")
		pathText, componentText, _ := strings.Cut(local, "components:\n")
		collect(paths, pathText, pathLine)
		collect(components, componentText, collectionLine)
	}
	document = pathReference.ReplaceAllStringFunc(document, func(line string) string {
		name := pathReference.FindStringSubmatch(line)[1]
		block, ok := paths[name]
		if !ok {
			err = fmt.Errorf("%s does not contain the path %s", dir, name)
		}
		delete(paths, name)
		return "  " + name + ":\n" + block
	})
	for name := range paths {
		err = fmt.Errorf("the document has no reference to the path %s in %s", name, dir)
	}
	for _, name := range slices.Sorted(maps.Keys(components)) {
		document += "  " + name + ":\n" + components[name]
	}
	return document, err
}

// collect adds the text below each line that the pattern matches, by the name in the
// line.
func collect(blocks map[string]string, text string, line *regexp.Regexp) {
	starts := line.FindAllStringSubmatchIndex(text, -1)
	for i, start := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		blocks[text[start[2]:start[3]]] += strings.TrimRight(text[start[1]:end], "\n") + "\n"
	}
}
