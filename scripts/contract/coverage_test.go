package main

import (
	"context"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/contracttest"
)

const pets = `
openapi: 3.0.3
info: {title: Pets, version: 1.0.0}
paths:
  /pets:
    post:
      operationId: createPet
      parameters:
        - {name: dry, in: query, schema: {type: boolean}, example: 1}
      requestBody:
        content:
          application/json:
            schema: {$ref: '#/components/schemas/Pet'}
            examples:
              cat: {value: {name: Tom}}
              dog: {value: {nam: Rex}}
      responses:
        '201':
          description: The pet.
          content: {application/json: {schema: {$ref: '#/components/schemas/Pet'}, example: {name: 7}}}
        default: {description: A failure.}
  /pets/{petId}:
    parameters: [{name: petId, in: path, required: true, schema: {type: string}}]
    get:
      operationId: getPet
      responses:
        '200':
          description: The pet.
          headers: {X-Age: {schema: {type: integer}, example: old}}
        '404': {description: No such pet.}
components:
  schemas:
    Pet:
      type: object
      required: [name]
      properties:
        name: {type: string, example: Rex}
        born: {type: string, format: date-time, example: yesterday}
      example: {name: Rex, age: 3}
`

func loadPets(t *testing.T) *openapi3.T {
	t.Helper()
	spec, err := openapi3.NewLoader().LoadFromData([]byte(pets))
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.Validate(context.Background(), openapi3.DisableExamplesValidation()); err != nil {
		t.Fatal(err)
	}
	return spec
}

func seenOf(id string, status int) contracttest.Observation {
	return contracttest.Observation{Surface: "cloud", OperationID: id, Status: status}
}

func TestCompare_FindsMissingAndUndocumented(t *testing.T) {
	c := compare(documented("cloud", loadPets(t)), map[contracttest.Observation]bool{
		seenOf("createPet", 201): true, seenOf("createPet", 500): true, seenOf("getPet", 200): true,
		seenOf("getPet", 431): true,
	})
	want := comparison{
		seenOf("createPet", 201): covered, seenOf("createPet", 500): undocumented,
		seenOf("getPet", 200): covered, seenOf("getPet", 404): notCovered,
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("compared (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"cloud createPet: 500 undocumented", "cloud getPet: 404 not seen"}, c.gaps()); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
	table := "cloud  createPet  201 seen  500 UNDOCUMENTED\ncloud  getPet     200 seen  404 NOT SEEN\n"
	if diff := cmp.Diff(table, c.table()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if c.operations() != 2 || c.count(covered) != 2 {
		t.Errorf("%d operations, %d seen", c.operations(), c.count(covered))
	}
}

func TestCompare_CompleteCoverage(t *testing.T) {
	all := documented("cloud", loadPets(t))
	observed := map[contracttest.Observation]bool{}
	for _, observation := range all {
		observed[observation] = true
	}
	if c := compare(all, observed); len(c.gaps()) > 0 || c.count(covered) != 3 {
		t.Errorf("gaps: %s", strings.Join(c.gaps(), "; "))
	}
}
