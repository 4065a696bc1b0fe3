package oapi_test

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/browser-svc/svc/shared/fault"
)

// bodies are the seeds: at least one valid and one invalid for each property of Thing.
var bodies = []string{
	``, ` `, `null`, `true`, `0`, `"a"`, `[]`, `{}`, `{"name":"a"}`, `{"name":"ab"}`, `{"name":"ab"}x`, `{"name":"ab","name":"ab"}`,
	`{"name":"ab","count":1e2,"big":-0,"even":2.0}`, `{"name":"ab","count":1e99999999999999999999}`,
	`{"name":"ab","ratio":1e-400,"weight":3.5e38}`, `{"name":"ab","on":true,"color":"red","shade":null}`,
	`{"name":"ab","tags":["a","b"],"at":"2026-01-31T12:00:00Z","day":"2026-01-31"}`,
	`{"name":"ab","owner":"0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f","mail":"a@b.example","url":"https://a.example"}`,
	`{"name":"ab","blob":"aGk=","point":{"x":1,"y":2.0},"points":[{"x":0,"y":0}]}`,
	`{"name":"ab","blob":"a\nGk=","proxy":{"server":"s","password":"abcd","token":"t_"},"override":null}`,
	`{"name":"ab","labels":{"a":"b"},"metadata":{"a":[1,null,{"b":1e308}]},"size":9,"vague":"bb","nots":"x"}`,
	`{"name":"ab","shape":{"kind":"square","side":1e1},"pick":{"place":3},"child":{"name":"cd"}}`,
	`{"name":"ab","pick":{"name":"ab","place":3}}`, `{"name":"\ud83d\ude00\ud83d\ude00"}`, `{"name":"\ud83d"}`,
	`{"n\u0061me":"ab"}`, "{\"name\":\"\xff\xff\"}", `{"name":"a\u0000"}`, `{"NAME":"ab","name":"ab"}`,
	`{"id":"0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f","name":"ab"}`, `{"name":"ab","tree":[["a"],"b"]}`, `[[[[[[[[[[]]]]]]]]]]`, `{"a":{"b":{"c":[{}]}}}`,
	`{"name":"ab","metadata":` + strings.Repeat(`{"a":`, 60) + `1` + strings.Repeat(`}`, 60) + `}`,
}

// FuzzBody compares the guard with the schema library for any body: the guard answers
// 400 with valid JSON, or accepts the body, which must then decode. Its verdict must be
// that of the library, except where the guard is stricter.
func FuzzBody(f *testing.F) {
	for _, body := range bodies {
		f.Add([]byte(body))
	}
	var saw receivedRequest
	e := newEcho(f, &saw)
	schema := load(f).T().Components.Schemas["Thing"].Value
	f.Fuzz(func(t *testing.T, body []byte) {
		// The library takes exponential time for a union that contains itself.
		if len(body) > 60<<10 || bytes.Count(body, []byte("[")) > 12 {
			return
		}
		saw = receivedRequest{}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/things", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Cookie", "session=good")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusOK:
			if !saw.handled {
				t.Fatal("200 without the handler")
			}
			if why := refusal(schema, []byte(saw.body)); why != "" {
				t.Errorf("accepted %s, but the library refuses it: %s", saw.body, why)
			}
		case http.StatusBadRequest:
			if saw.handled {
				t.Fatal("the handler was called for a refused request")
			}
			var answer fault.Error
			decoder := json.NewDecoder(w.Body)
			decoder.UseNumber()
			if err := decoder.Decode(&answer); err != nil || len(answer.Details) == 0 {
				t.Errorf("answer %s: %v", w.Body, err)
			}
			if d := answer.Details[0]; len(body) > 0 && strings.HasPrefix(d.Message, "is not valid JSON") == json.Valid(body) && !strings.Contains(d.Message, "nested deeper") {
				t.Errorf("valid JSON is %v, but %+v", json.Valid(body), answer.Details)
			}
			if refusal(schema, body) == "" && !mayBeStricter(answer.Details) {
				t.Errorf("refused a body that the schema allows: %+v", answer.Details)
			}
		default:
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	})
}

// refusal returns the error of the schema library for a body, "" if it is valid.
func refusal(schema *openapi3.Schema, body []byte) string {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return err.Error()
	}
	err := schema.VisitJSON(v, openapi3.VisitAsRequest(), openapi3.EnableFormatValidation(), openapi3.DisableSchemaErrorDetails())
	if err == nil {
		return ""
	}
	return err.Error()
}

// mayBeStricter reports whether the guard may refuse this although the schema library does
// not: it checks formats and text more strictly, and it also checks duplicate members,
// the nesting depth and the range of Go's numbers.
func mayBeStricter(details []fault.Detail) bool {
	for _, d := range details {
		limit, bounded := d.Constraint["max"].(json.Number)
		f, _ := limit.Float64()
		if d.Code == fault.InvalidFormat || (d.Code == fault.Custom && d.Message == "is given more than once") ||
			(bounded && f >= math.MaxInt32) || d.Message == "is too small" ||
			strings.HasPrefix(d.Message, "must be at least -9223372036854775808") {
			return true
		}
	}
	return false
}
