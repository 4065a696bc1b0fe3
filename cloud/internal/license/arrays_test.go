package license

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

func TestBinaryArray_RoundTrips(t *testing.T) {
	db := dbtest.Open(t, dbtest.NewDSN(t), pg.Options{})
	id := uuid.MustParse("0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f")
	early, late := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999999499, time.UTC)
	words := []string{"", `a "b" \ {c}, null`, "NULL", "ü"}
	for name, test := range map[string]struct {
		list []byte
		is   string // SQL of the same
	}{
		"ids":      {uuidArray([]uuid.UUID{id, uuid.Nil}), `ARRAY['` + id.String() + `', '` + uuid.Nil.String() + `']::uuid[]`},
		"no ids":   {uuidArray(nil), `'{}'::uuid[]`},
		"optional": {binaryArray(uuidElement, []*uuid.UUID{nil, &id, nil}, appendOptionalUUID), `ARRAY[NULL, '` + id.String() + `', NULL]::uuid[]`},
		"texts":    {binaryArray(textElement, words, appendText), `ARRAY['', 'a "b" \ {c}, null', 'NULL', 'ü']::text[]`},
		"times": {
			binaryArray(timeElement, []*time.Time{&early, nil, &late}, appendTime),
			`ARRAY['0001-01-01T00:00:00Z', NULL, '9999-12-31T23:59:59.999999Z']::timestamptz[]`,
		},
		"no times": {binaryArray(timeElement, nil, appendTime), `'{}'::timestamptz[]`},
	} {
		var same bool
		if err := db.Get(&same, `SELECT $1 = `+test.is, test.list); err != nil || !same {
			t.Errorf("%s: the same: %t, %v", name, same, err)
		}
	}
}
