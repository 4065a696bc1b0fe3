package bundled

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var (
	schemaLine   = regexp.MustCompile(`(?m)^    \w+:\n`)
	includeLine  = regexp.MustCompile(`(?m)^      allOf: \[(.*#/components/x-properties/.*)\]\n`)
	includedName = regexp.MustCompile(`'([^'#]*)#/components/x-properties/(\w+)'`)
	propertyLine = regexp.MustCompile(`(?m)^(?:  )?        (\w+): .*\n`)
)

// Include returns the text of a document in which each schema with allOf of lists of
// components/x-properties has the properties of these lists itself, except those that it
// declares. Code generators and validators see plain objects. name is the document's path
// in fsys.
func Include(fsys fs.FS, name string, text []byte) (string, error) {
	document := string(text)
	starts := schemaLine.FindAllStringIndex(document, -1)
	for i := len(starts) - 1; i >= 0; i-- {
		end := len(document)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		schema := document[starts[i][0]:end]
		line := includeLine.FindStringSubmatch(schema)
		if line == nil {
			continue
		}
		properties := ""
		for _, list := range includedName.FindAllStringSubmatch(line[1], -1) {
			added, err := propertyList(fsys, name, list[1], list[2], schema)
			if err != nil {
				return "", err
			}
			properties += added
		}
		schema = strings.Replace(schema, line[0], "", 1)
		schema = strings.Replace(schema, "      properties:\n", "      properties:\n"+properties, 1)
		document = document[:starts[i][0]] + schema + document[end:]
	}
	return document, nil
}

// propertyList returns the properties of a list that the schema does not declare. file is
// the document of the list, relative to name; empty for the same document.
func propertyList(fsys fs.FS, name, file, list, schema string) (string, error) {
	source := name
	if file != "" {
		source = path.Join(path.Dir(name), file)
	}
	text, err := fs.ReadFile(fsys, source)
	if err != nil {
		return "", err
	}
	_, found, _ := strings.Cut(string(text), "  x-properties:\n")
	_, found, ok := strings.Cut(found, "    "+list+":\n")
	if !ok {
		return "", fmt.Errorf("%s has no components/x-properties/%s", source, list)
	}
	declared := map[string]bool{}
	for _, property := range propertyLine.FindAllStringSubmatch(schema, -1) {
		declared[property[1]] = true
	}
	properties := ""
	for line := range strings.Lines(found) {
		property := propertyLine.FindStringSubmatch("  " + line)
		if property == nil || !strings.HasPrefix(line, "      ") {
			break
		}
		if !declared[property[1]] {
			properties += "  " + strings.ReplaceAll(line, "'#/", "'"+file+"#/")
		}
	}
	return properties, nil
}
