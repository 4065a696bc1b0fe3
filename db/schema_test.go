package db_test

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/db/dbtest"
)

var update = flag.Bool("update", false, "write schema.sql")

const schemaHeader = "-- The schema after every migration. Written by: go test ./db -run TestSchemaFile -update\n\n"

func TestSchemaFile_MatchesMigrations(t *testing.T) {
	schema, err := dbtest.Schema(t.Context(), dbtest.NewDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	got := schemaHeader + schema
	if *update {
		if err := os.WriteFile("schema.sql", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile("schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("schema.sql is out of date; run: go test ./db -run TestSchemaFile -update\n(-file +migrations)\n%s", diff)
	}
}
