package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExampleRequests_FindsAllExamples(t *testing.T) {
	var all []string
	for _, example := range exampleRequests("cloud", loadPets(t)) {
		body, err := json.Marshal(example.body)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, example.String()+" "+string(body))
	}
	want := []string{
		`POST /pets (createPet) cat {"name":"Tom"}`,
		`POST /pets (createPet) dog {"nam":"Rex"}`,
		`GET /pets/{petId} (getPet) null`,
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("examples (-want +got):\n%s", diff)
	}
}

func TestInvalidExamples_FindsAll(t *testing.T) {
	found := strings.Join(invalidExamples("cloud", loadPets(t)), "\n")
	for _, want := range []string{
		"cloud createPet parameter dry: the example does not match the schema: value must be a boolean",
		`cloud createPet request dog: the example does not match the schema: name: property "name" is missing`,
		"cloud createPet request dog: the example does not match the schema: nam is not in the schema",
		"cloud createPet (POST /pets) 201 application/json : the example does not match the schema: name: value must be a string (got 7)",
		"cloud getPet (GET /pets/{petId}) 200 header X-Age: the example does not match the schema: value must be an integer",
		"cloud schema Pet: the example does not match the schema: age is not in the schema",
		"cloud schema Pet.born: the example does not match the schema: ",
	} {
		if !strings.Contains(found, want) {
			t.Errorf("no %q in\n%s", want, found)
		}
	}
	for _, not := range []string{"request cat", "Pet.name"} {
		if strings.Contains(found, not) {
			t.Errorf("%q is valid, but reported in\n%s", not, found)
		}
	}
}

func TestReplaceMembers(t *testing.T) {
	body := map[string]any{"id": "generated", "spec": map[string]any{"version": 1, "os": "linux"}, "kept": true}
	got := replaceMembers(body, map[string]any{"id": "real", "spec.version": 2, "absent": 1, "other.absent": 1})
	want := map[string]any{"id": "real", "spec": map[string]any{"version": 2, "os": "linux"}, "kept": true}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if body["id"] != "generated" {
		t.Error("the document's own example has changed")
	}
}
