package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
)

// fileFields has the names of the fields of a file of svc apply.
type fileFields struct {
	Organization    string                                 `json:"organization"`
	Profiles        []cloudapi.CreateProfileRequest        `json:"profiles"`
	NetworkRules    sharedapi.StoredNetworkRules           `json:"networkRules"`
	Members         []cloudapi.InviteMemberRequest         `json:"members"`
	ServiceAccounts []cloudapi.UpdateServiceAccountRequest `json:"serviceAccounts"`
	Webhooks        []webhookFields                        `json:"webhooks"`
}

// webhookFields has the names of the fields of a webhook endpoint.
type webhookFields struct {
	URL         string   `json:"url"`
	Description string   `json:"description"`
	Types       []string `json:"types"`
	Enabled     bool     `json:"enabled"`
}

// parseFile returns the sections of all documents of a file. It refuses unknown fields.
func parseFile(text []byte) (map[string]any, error) {
	content := map[string]any{}
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			return asMap(content)
		}
		if err == nil {
			err = addDocument(content, node.Content[0])
		}
		if err != nil {
			return nil, err
		}
	}
}

// addDocument adds the sections of a document to those of the documents before it.
func addDocument(content map[string]any, document *yaml.Node) error {
	if err := checkFields(document, reflect.TypeFor[fileFields](), "the file"); err != nil {
		return err
	}
	var sections map[string]any
	if err := document.Decode(&sections); err != nil {
		return err
	}
	for name, section := range sections {
		items, _ := section.([]any)
		before, exists := content[name]
		earlier, isList := before.([]any)
		if exists && !isList {
			return fmt.Errorf("line %d: two documents have %s", document.Line, name)
		}
		if content[name] = section; exists {
			content[name] = append(earlier, items...)
		}
	}
	return nil
}

// checkFields returns an error for a field that the type does not have, and for another kind of value.
func checkFields(node *yaml.Node, t reflect.Type, place string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	fields := fieldsOf(t)
	switch {
	case node.Kind == yaml.AliasNode:
		return checkFields(node.Alias, t, place)
	case node.Tag == "!!null" || t.Kind() != reflect.Slice && len(fields) == 0:
		return nil
	case node.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, item := range node.Content {
			if err := checkFields(item, t.Elem(), place); err != nil {
				return err
			}
		}
		return nil
	case node.Kind != yaml.MappingNode || len(fields) == 0:
		return fmt.Errorf("line %d: %s has to be %s", node.Line, place, map[bool]string{true: "an object", false: "a list"}[len(fields) > 0])
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name := node.Content[i]
		field, known := fields[name.Value]
		if !known {
			return fmt.Errorf("line %d: %s has the unknown field %q; known are %s", name.Line, place, name.Value,
				strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if err := checkFields(node.Content[i+1], field, name.Value); err != nil {
			return err
		}
	}
	return nil
}

// fieldsOf returns the types of the fields of an object by their names in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := 0; t.Kind() == reflect.Struct && i < t.NumField(); i++ {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			fields[name] = t.Field(i).Type
		}
	}
	return fields
}
