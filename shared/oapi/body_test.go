package oapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/fault"
)

// expectedDetail is an expected detail: "field CODE", the received value and the constraint as
// JSON ("" if absent), and a part of the message.
type expectedDetail struct {
	field, code, received, constraint, message string
}

func details(t *testing.T, got []fault.Detail) []expectedDetail {
	t.Helper()
	var out []expectedDetail
	for _, d := range got {
		w := expectedDetail{field: d.Field, code: d.Code, message: d.Message}
		if d.Received != nil {
			w.received = encode(t, d.Received)
		}
		if d.Constraint != nil {
			w.constraint = encode(t, d.Constraint)
		}
		out = append(out, w)
	}
	return out
}

func encode(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestBody_ReportsFields(t *testing.T) {
	long := strings.Repeat("é", 1100)
	longList := strings.Repeat(`"aaaaaaaa",`, 100)
	tests := map[string]struct {
		body string
		want []expectedDetail
	}{
		"INVALID_TYPE":        {`{"name":5}`, []expectedDetail{{"name", "INVALID_TYPE", `5`, `{"type":"string"}`, "must be a string"}}},
		"null":                {`{"name":null}`, []expectedDetail{{"name", "INVALID_TYPE", ``, `{"type":"string"}`, "must be a string"}}},
		"INVALID_FORMAT":      {`{"name":"ab","owner":"x"}`, []expectedDetail{{"owner", "INVALID_FORMAT", `"x"`, `{"format":"uuid"}`, "must be a UUID, such as 0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f"}}},
		"TOO_SHORT":           {`{"name":"é"}`, []expectedDetail{{"name", "TOO_SHORT", `"é"`, `{"max":8,"min":2}`, "must be at least 2 characters long"}}},
		"TOO_LONG":            {`{"name":"abcdefghi"}`, []expectedDetail{{"name", "TOO_LONG", `"abcdefghi"`, `{"max":8,"min":2}`, "must be at most 8 characters long"}}},
		"huge text is cut":    {`{"name":"` + long + `"}`, []expectedDetail{{"name", "TOO_LONG", `"` + long[:2000] + `…"`, `{"max":8,"min":2}`, "must be at most 8 characters long"}}},
		"INVALID_PATTERN":     {`{"name":"ab","slug":"A"}`, []expectedDetail{{"slug", "INVALID_PATTERN", `"A"`, `{"pattern":"^[a-z]+$"}`, "must match the pattern ^[a-z]+$"}}},
		"TOO_SMALL":           {`{"name":"ab","count":0}`, []expectedDetail{{"count", "TOO_SMALL", `0`, `{"max":100,"min":1}`, "must be at least 1"}}},
		"TOO_SMALL exclusive": {`{"name":"ab","ratio":0.0}`, []expectedDetail{{"ratio", "TOO_SMALL", `0.0`, `{"exclusiveMin":true,"max":1,"min":0}`, "must be greater than 0"}}},
		"TOO_BIG":             {`{"name":"ab","count":101}`, []expectedDetail{{"count", "TOO_BIG", `101`, `{"max":100,"min":1}`, "must be at most 100"}}},
		"TOO_BIG for int32":   {`{"name":"ab","count":12345678901}`, []expectedDetail{{"count", "TOO_BIG", `12345678901`, `{"max":100,"min":1}`, "must be at most 100"}}},
		"TOO_BIG 20 digits":   {`{"name":"ab","big":12345678901234567890}`, []expectedDetail{{"big", "TOO_BIG", `12345678901234567890`, `{"max":9223372036854775807}`, "must be at most 9223372036854775807"}}},
		"TOO_SMALL 1e400":     {`{"name":"ab","big":-1e400}`, []expectedDetail{{"big", "TOO_SMALL", `"-1e400"`, `{"min":-9223372036854775808}`, "must be at least -9223372036854775808"}}},
		"TOO_BIG float":       {`{"name":"ab","weight":1e39}`, []expectedDetail{{"weight", "TOO_BIG", `1e39`, `{"max":3.4028234663852886e+38}`, "is too large"}}},
		"TOO_BIG free form":   {`{"name":"ab","metadata":{"a":[1e400]}}`, []expectedDetail{{"metadata.a[0]", "TOO_BIG", `"1e400"`, `{"max":1.7976931348623157e+308}`, "is too large"}}},
		"NOT_INTEGER":         {`{"name":"ab","count":1.5}`, []expectedDetail{{"count", "NOT_INTEGER", `1.5`, `{"type":"integer"}`, "must be a whole number"}}},
		"NOT_INTEGER tiny":    {`{"name":"ab","count":1e-999999999}`, []expectedDetail{{"count", "NOT_INTEGER", `1e-999999999`, `{"type":"integer"}`, "must be a whole number"}}},
		"ARRAY_TOO_SHORT":     {`{"name":"ab","tags":[]}`, []expectedDetail{{"tags", "ARRAY_TOO_SHORT", `[]`, `{"max":3,"min":1}`, "must have at least 1 item"}}},
		"ARRAY_TOO_LONG":      {`{"name":"ab","tags":["a","b","c","d"]}`, []expectedDetail{{"tags", "ARRAY_TOO_LONG", `["a","b","c","d"]`, `{"max":3,"min":1}`, "must have at most 3 items"}}},
		"INVALID_ENUM_VALUE":  {`{"name":"ab","color":"pink"}`, []expectedDetail{{"color", "INVALID_ENUM_VALUE", `"pink"`, `{"allowed":["red","green","blue"]}`, "must be one of red, green, blue"}}},
		"nullable enum":       {`{"name":"ab","hue":"pink"}`, []expectedDetail{{"hue", "INVALID_ENUM_VALUE", `"pink"`, `{"allowed":["warm","cold"]}`, "must be one of warm, cold"}}},
		"INVALID_UNION":       {`{"name":"ab","size":true}`, []expectedDetail{{"size", "INVALID_UNION", `true`, `{"oneOf":["string","integer"]}`, "must match exactly one alternative"}}},
		"union fits twice":    {`{"name":"ab","vague":"aa"}`, []expectedDetail{{"vague", "INVALID_UNION", `"aa"`, `{"oneOf":["string","string"]}`, "must match exactly one alternative"}}},
		"REQUIRED":            {`{}`, []expectedDetail{{"name", "REQUIRED", ``, ``, "is required"}}},
		"REQUIRED nested":     {`{"name":"ab","points":[{"x":1,"y":2},{"x":1}]}`, []expectedDetail{{"points[1].y", "REQUIRED", ``, ``, "is required"}}},
		"UNRECOGNIZED_KEY": {`{"name":"ab","zip":1,"Name":"x"}`, []expectedDetail{
			{"zip", "UNRECOGNIZED_KEY", `1`, ``, "is not a known field"},
			{"Name", "UNRECOGNIZED_KEY", `"x"`, ``, "is not a known field"}}},
		"UNRECOGNIZED_KEY beside a secret": {`{"name":"ab","proxy":{"server":"s","pasword":"hunter2"}}`, []expectedDetail{{"proxy.pasword", "UNRECOGNIZED_KEY", ``, ``, "is not a known field"}}},
		"CUSTOM not unique":                {`{"name":"ab","tags":["a","\u0061"]}`, []expectedDetail{{"tags", "CUSTOM", `["a","a"]`, `{"unique":true}`, "must not contain duplicate items"}}},
		"CUSTOM multiple":                  {`{"name":"ab","even":3}`, []expectedDetail{{"even", "CUSTOM", `3`, `{"multipleOf":2}`, "must be a multiple of 2"}}},
		"CUSTOM too few members":           {`{"name":"ab","labels":{}}`, []expectedDetail{{"labels", "CUSTOM", `{}`, `{"max":3,"min":1}`, "must have at least 1 property"}}},
		"CUSTOM too many members":          {`{"name":"ab","labels":{"a":"","b":"","c":"","d":""}}`, []expectedDetail{{"labels", "CUSTOM", `{"a":"","b":"","c":"","d":""}`, `{"max":3,"min":1}`, "must have at most 3 properties"}}},
		"CUSTOM not, but":                  {`{"name":"ab","long":"abc"}`, []expectedDetail{{"long", "CUSTOM", `"abc"`, ``, "has a value that is not allowed"}}},
		"CUSTOM not":                       {`{"name":"ab","nots":"never"}`, []expectedDetail{{"nots", "CUSTOM", `"never"`, ``, "has a value that is not allowed"}}},
		"CUSTOM read-only":                 {`{"name":"ab","id":"0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f"}`, []expectedDetail{{"id", "CUSTOM", `"0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f"`, ``, "is read-only"}}},
		"CUSTOM twice":                     {`{"name":"ab","name":"cd"}`, []expectedDetail{{"name", "CUSTOM", ``, ``, "is given more than once"}}},
		"CUSTOM twice, spelled otherwise":  {`{"name":"ab","points":[{"x":1,"y":2},{"x":1,"y":2,"\u0078":3}]}`, []expectedDetail{{"points[1].x", "CUSTOM", ``, ``, "is given more than once"}}},
		"CUSTOM twice in free form":        {`{"name":"ab","metadata":{"a":{"b":1,"b":2}}}`, []expectedDetail{{"metadata.a.b", "CUSTOM", ``, ``, "is given more than once"}}},
		"secret": {`{"name":"ab","proxy":{"server":"","password":"abc","token":"x"}}`, []expectedDetail{
			{"proxy.server", "TOO_SHORT", `""`, `{"max":64,"min":1}`, "must be at least 1 character long"},
			{"proxy.password", "TOO_SHORT", ``, `{"max":64,"min":4}`, "must be at least 4 characters long"},
			{"proxy.token", "INVALID_PATTERN", ``, `{"pattern":"^t_"}`, "must match the pattern ^t_"}}},
		"secret of the wrong type":    {`{"name":"ab","proxy":{"server":"s","password":["hunter2"]}}`, []expectedDetail{{"proxy.password", "INVALID_TYPE", ``, `{"type":"string"}`, "must be a string"}}},
		"a key in a text":             {`{"name":"svc_abcdefghijklmnopqrstuvwxyz234567"}`, []expectedDetail{{"name", "TOO_LONG", `"svc_***"`, `{"max":8,"min":2}`, "must be at most 8 characters long"}}},
		"a password in a URL":         {`{"name":"ab","url":"https://ann:hunter2@a.example/{"}`, []expectedDetail{{"url", "INVALID_FORMAT", `"https://***@a.example/{"`, `{"format":"uri"}`, "must be an absolute URL, such as https://example.com/page"}}},
		"a URL for an object":         {`{"name":"ab","proxy":"http://ann:hunter2@a.example"}`, []expectedDetail{{"proxy", "INVALID_TYPE", ``, `{"type":"object"}`, "must be an object"}}},
		"secret in an item":           {`{"name":"ab","proxies":[{"server":"a","password":"hunter2","pasword":"x"},{"server":"b","token":"t_1"},{"server":"c"}]}`, []expectedDetail{{"proxies", "ARRAY_TOO_LONG", `[{"server":"a"},{"server":"b"},{"server":"c"}]`, `{"max":2}`, "must have at most 2 items"}}},
		"unknown object":              {`{"name":"ab","zip":{"code":[1,"a"],"apiKey":"hunter2","more":{"password":"x"}}}`, []expectedDetail{{"zip", "UNRECOGNIZED_KEY", `{"code":[1,"a"],"more":{}}`, ``, "is not a known field"}}},
		"unknown secret":              {`{"name":"ab","accessToken":"hunter2","password":"hunter2"}`, []expectedDetail{{"accessToken", "UNRECOGNIZED_KEY", ``, ``, "is not a known field"}, {"password", "UNRECOGNIZED_KEY", ``, ``, "is not a known field"}}},
		"a long list is cut":          {`{"name":"ab","tags":[` + longList + `"a"]}`, []expectedDetail{{"tags", "ARRAY_TOO_LONG", encode(t, ("[" + longList)[:1000]+"…"), `{"max":3,"min":1}`, "must have at most 3 items"}}},
		"secret in an array":          {`{"name":"ab","proxy":[{"password":"hunter2"}]}`, []expectedDetail{{"proxy", "INVALID_TYPE", ``, `{"type":"object"}`, "must be an object"}}},
		"NUL":                         {`{"name":"a\u0000b"}`, []expectedDetail{{"name", "INVALID_FORMAT", `"a\u0000b"`, `{"format":"utf-8"}`, "must be valid Unicode text without NUL characters"}}},
		"half a surrogate":            {`{"name":"a\ud800b"}`, []expectedDetail{{"name", "INVALID_FORMAT", `"a�b"`, `{"format":"utf-8"}`, "must be valid Unicode text without NUL characters"}}},
		"not UTF-8":                   {"{\"name\":\"a\xffb\"}", []expectedDetail{{"name", "INVALID_FORMAT", `"a�b"`, `{"format":"utf-8"}`, "must be valid Unicode text without NUL characters"}}},
		"NUL in a free-form key":      {`{"name":"ab","metadata":{"\u0000":1}}`, []expectedDetail{{"metadata.\x00", "INVALID_FORMAT", ``, `{"format":"utf-8"}`, "must be valid Unicode text without NUL characters"}}},
		"bad values in a map":         {`{"name":"ab","labels":{"a.b":"123456","c":1}}`, []expectedDetail{{"labels.a.b", "TOO_LONG", `"123456"`, `{"max":5}`, "must be at most 5 characters long"}, {"labels.c", "INVALID_TYPE", `1`, `{"type":"string"}`, "must be a string"}}},
		"the branch of that type":     {`{"name":"ab","size":10}`, []expectedDetail{{"size", "TOO_BIG", `10`, `{"max":9}`, "must be at most 9"}}},
		"the branch of that tag":      {`{"name":"ab","shape":{"kind":"circle","radius":0,"side":1}}`, []expectedDetail{{"shape.radius", "TOO_SMALL", `0`, `{"min":1}`, "must be at least 1"}, {"shape.side", "UNRECOGNIZED_KEY", `1`, ``, "is not a known field"}}},
		"unknown tag":                 {`{"name":"ab","shape":{"kind":"oval"}}`, []expectedDetail{{"shape.kind", "INVALID_ENUM_VALUE", `"oval"`, `{"allowed":["circle","square"]}`, "must be one of circle, square"}}},
		"no tag":                      {`{"name":"ab","shape":{}}`, []expectedDetail{{"shape.kind", "REQUIRED", ``, `{"allowed":["circle","square"]}`, "is required"}}},
		"the branch of that selector": {`{"name":"ab","pick":{"place":0}}`, []expectedDetail{{"pick.place", "TOO_SMALL", `0`, `{"min":1}`, "must be at least 1"}}},
		"two selectors":               {`{"name":"ab","pick":{"name":"ab","place":1}}`, []expectedDetail{{"pick.name", "INVALID_UNION", `"ab"`, `{"oneOf":["name","place"]}`, "supply exactly one of name or place"}}},
		"through nullable allOf":      {`{"name":"ab","override":{}}`, []expectedDetail{{"override.server", "REQUIRED", ``, ``, "is required"}}},
		"in a recursive schema":       {`{"name":"ab","child":{"name":"cd","child":{"name":""}}}`, []expectedDetail{{"child.child.name", "TOO_SHORT", `""`, `{"max":8,"min":2}`, "must be at least 2 characters long"}}},
		"all at once": {`{"slug":"A","tags":["ok","","toolong"],"point":{"x":-1,"z":3},"on":"yes"}`, []expectedDetail{
			{"slug", "INVALID_PATTERN", `"A"`, `{"pattern":"^[a-z]+$"}`, "must match the pattern ^[a-z]+$"},
			{"tags[1]", "TOO_SHORT", `""`, `{"max":5,"min":1}`, "must be at least 1 character long"},
			{"tags[2]", "TOO_LONG", `"toolong"`, `{"max":5,"min":1}`, "must be at most 5 characters long"},
			{"point.x", "TOO_SMALL", `-1`, `{"max":4096,"min":0}`, "must be at least 0"},
			{"point.z", "UNRECOGNIZED_KEY", `3`, ``, "is not a known field"},
			{"point.y", "REQUIRED", ``, ``, "is required"},
			{"on", "INVALID_TYPE", `"yes"`, `{"type":"boolean"}`, "must be true or false"},
			{"name", "REQUIRED", ``, ``, "is required"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := send(t, call{body: test.body})
			if got.status != http.StatusBadRequest || got.saw.handled {
				t.Fatalf("status %d, handled %v: %s", got.status, got.saw.handled, got.text)
			}
			if diff := cmp.Diff(test.want, details(t, got.fault.Details), cmp.AllowUnexported(expectedDetail{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBody_SyntaxErrors(t *testing.T) {
	tests := map[string]struct{ body, message string }{
		"cut off":           {`{"name":`, "is not valid JSON: unexpected end at line 1, column 9"},
		"open string":       {`{"name":"a`, "is not valid JSON: unexpected end at line 1, column 11"},
		"on line 2":         {"{\"é\":1,\n\"é\" x}", "is not valid JSON: expected a colon at line 2, column 5"},
		"trailing comma":    {`{"name":"ab",}`, "is not valid JSON: expected a member name in double quotes at line 1, column 14"},
		"trailing item":     {`{"tags":["a",]}`, "is not valid JSON: unexpected character at line 1, column 14"},
		"trailing data":     {`{"name":"ab"} {}`, "is not valid JSON: unexpected text after the end of the value at line 1, column 15"},
		"leading zero":      {`{"count":01}`, "is not valid JSON: expected a comma or } at line 1, column 11"},
		"bare word":         {`nope`, "is not valid JSON: unexpected character at line 1, column 1"},
		"single quotes":     {`{'name':1}`, "is not valid JSON: expected a member name in double quotes at line 1, column 2"},
		"control character": {"{\"name\":\"a\nb\"}", "is not valid JSON: control character in a string at line 1, column 11"},
		"spaces":            {`   `, "is not valid JSON: unexpected end at line 1, column 4"},
		"deep":              {strings.Repeat(`[`, 70) + strings.Repeat(`]`, 70), "is not valid JSON: nested deeper than 64 levels at line 1, column 66"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := send(t, call{body: test.body})
			want := []expectedDetail{{"body", "INVALID_FORMAT", "", `{"format":"json"}`, test.message}}
			if diff := cmp.Diff(want, details(t, got.fault.Details), cmp.AllowUnexported(expectedDetail{})); diff != "" {
				t.Errorf("status %d: %s", got.status, diff)
			}
		})
	}
}

func TestBody_ExactlyOneOf(t *testing.T) {
	id := `"0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f"`
	neither := []expectedDetail{{"thingId", "INVALID_UNION", "", `{"oneOf":["thingId","spec"]}`, "supply exactly one of thingId or spec"}}
	tests := map[string]struct {
		body string
		want []expectedDetail
	}{
		"the one":               {`{"thingId":` + id + `}`, nil},
		"the other":             {`{"spec":{"name":"ab"}}`, nil},
		"neither":               {`{}`, neither},
		"both":                  {`{"thingId":` + id + `,"spec":{"name":"ab"}}`, []expectedDetail{{"thingId", "INVALID_UNION", id, `{"oneOf":["thingId","spec"]}`, "supply exactly one of thingId or spec"}}},
		"null counts as absent": {`{"thingId":null,"spec":{"name":"ab"}}`, nil},
		"null for both":         {`{"thingId":null,"spec":null}`, neither},
		"one, wrong":            {`{"spec":{"name":""}}`, []expectedDetail{{"spec.name", "TOO_SHORT", `""`, `{"max":8,"min":2}`, "must be at least 2 characters long"}}},
		"both, wrong":           {`{"thingId":5,"spec":{"name":"ab"}}`, []expectedDetail{{"thingId", "INVALID_TYPE", `5`, `{"type":"string"}`, "must be a string"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := send(t, call{target: "/launches", body: test.body})
			if diff := cmp.Diff(test.want, details(t, got.fault.Details), cmp.AllowUnexported(expectedDetail{})); diff != "" {
				t.Errorf("status %d: %s", got.status, diff)
			}
		})
	}
}

func TestBody_AtMostOneOf(t *testing.T) {
	id := `"0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f"`
	for body, want := range map[string][]expectedDetail{
		`{}`:                                    nil,
		`{"thingId":` + id + `}`:                nil,
		`{"thingId":null,"spec":{"name":"ab"}}`: nil,
		`{"thingId":` + id + `,"spec":{"name":"ab"}}`: {{"thingId", "INVALID_UNION", id, `{"oneOf":["thingId","spec"]}`, "supply at most one of thingId or spec"}},
	} {
		got := send(t, call{target: "/slots", body: body})
		if diff := cmp.Diff(want, details(t, got.fault.Details), cmp.AllowUnexported(expectedDetail{})); diff != "" {
			t.Errorf("%s: status %d: %s", body, got.status, diff)
		}
	}
}

func TestBody_NullOptionalMemberIsAbsent(t *testing.T) {
	for body, want := range map[string]string{
		`{"name":"ab","proxy":null}`:                           `{"name":"ab"}`,
		`{"proxy":null,"name":"ab"}`:                           `{"name":"ab"}`,
		`{ "slug" : null , "tags":null, "name":"ab" }`:         `{ "name":"ab" }`,
		`{"name":"ab","slug":null,"count":null}`:               `{"name":"ab"}`,
		`{"slug":null,"name":"ab","count":1e2,"tags":null}`:    `{"name":"ab","count":100}`,
		`{"id":null,"name":"ab","size":null,"shape":null}`:     `{"name":"ab"}`,
		`{"name":"ab","child":{"name":"cd","point":null}}`:     `{"name":"ab","child":{"name":"cd"}}`,
		`{"name":"ab","proxy":{"server":"s","password":null}}`: `{"name":"ab","proxy":{"server":"s"}}`,
		// A null that has a meaning is kept.
		`{"name":"ab","override":null,"shade":null,"metadata":{"a":null}}`: `{"name":"ab","override":null,"shade":null,"metadata":{"a":null}}`,
	} {
		got := send(t, call{body: body})
		if got.status != http.StatusOK || got.saw.body != want {
			t.Errorf("%s: status %d %s, body %s, want %s", body, got.status, got.text, got.saw.body, want)
		}
	}
	got := send(t, call{body: `{"name":null,"slug":null,"labels":{"a":null}}`})
	want := []expectedDetail{
		{"name", "INVALID_TYPE", ``, `{"type":"string"}`, "must be a string"},
		{"labels.a", "INVALID_TYPE", ``, `{"type":"string"}`, "must be a string"},
	}
	if diff := cmp.Diff(want, details(t, got.fault.Details), cmp.AllowUnexported(expectedDetail{})); diff != "" {
		t.Error(diff)
	}
}

func TestFormats(t *testing.T) {
	tests := map[string]map[string]bool{
		"owner": {"0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f": true, "0198C5A2-7C1E-7D3A-9B1F-3F2A6C1D4E5F": true,
			"{0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f}": false, "0198c5a27c1e7d3a9b1f3f2a6c1d4e5f": false, "0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5g": false, "0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4é5": false,
			"0198c5a2-7c1e-7d3a-9b1f_3f2a6c1d4e5f": false, "0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d-e5f": false, "": false},
		"mail": {"a@b.example": true, "Ann <a@b.example>": false, "<a@b.example>": false, "a": false, "a@": false, "a@b@c": false},
		"url": {"https://a.example/b?c": true, "about:blank": true, "/a": false, "https://": false, "http://a b": false, "https:///x": false, "%": false,
			"https://a.example/%C3%8F?x=a%20b&y[]=1": false, "https://a.example/%C3%8F?x=a%20b#c": true, "https://[::1]:80/": true, "https://\u00cf": false, "https://a/\u00ef": false, "https://a/?%zz": false, "https://a/#b#c": false, "https://a/{b}": false},
		"at":   {"2026-01-31T12:00:00Z": true, "2026-01-31T12:00:00.123456+02:00": true, "2026-01-31T12:00:00": false, "2026-02-30T12:00:00Z": false, "2026-01-31 12:00:00Z": false},
		"day":  {"2026-01-31": true, "2026-02-30": false, "2026-1-3": false},
		"blob": {"aGk=": true, "aGk": false, "?": false},
	}
	for field, values := range tests {
		for value, ok := range values {
			t.Run(field+" "+value, func(t *testing.T) {
				got := send(t, call{body: fmt.Sprintf(`{"name":"ab",%q:%q}`, field, value)})
				if got.saw.handled != ok {
					t.Errorf("status %d: %s", got.status, got.text)
				}
				if !ok && (len(got.fault.Details) != 1 || got.fault.Details[0].Code != fault.InvalidFormat) {
					t.Errorf("details %v", got.fault.Details)
				}
			})
		}
	}
}

func TestBody_IntegerSpellings(t *testing.T) {
	got := send(t, call{body: `{"name":"ab", "count":1e2, "big":-12.50e1, "even":2.0, "points":[{"x":1.0,"y":0e5}], "shape":{"kind":"circle","radius":10e-1}}`})
	want := `{"name":"ab", "count":100, "big":-125, "even":2, "points":[{"x":1,"y":0}], "shape":{"kind":"circle","radius":1}}`
	if got.status != http.StatusOK || got.saw.body != want || got.saw.whole != want {
		t.Errorf("status %d %s, body\n%s, text\n%s, want\n%s", got.status, got.text, got.saw.body, got.saw.whole, want)
	}
}

func TestBody_ValidReachesHandlerUnchanged(t *testing.T) {
	body := ` {"name":"a\u00e9", "count": 7, "ratio":0.5, "shade":null, "hue":null, "long":"abcd", "override":null, "metadata":{"a":[1e2,null,{"b":"c"}]}, "size":"abc", "tags":["a","b"]} `
	got := send(t, call{body: body, contentType: "application/JSON; charset=UTF-8"})
	if got.status != http.StatusOK || got.saw.body != body || got.saw.whole != body {
		t.Errorf("status %d %s, body %s, text %s", got.status, got.text, got.saw.body, got.saw.whole)
	}
}

func TestBody_RecursiveUnionIsBounded(t *testing.T) {
	deep := func(leaf string) string {
		return `{"name":"ab","tree":` + strings.Repeat(`[`, 60) + leaf + strings.Repeat(`]`, 60) + `}`
	}
	if got := send(t, call{body: deep(`"abc"`)}); got.status != http.StatusOK {
		t.Errorf("status %d: %s", got.status, got.text)
	}
	got := send(t, call{body: deep(`"abcd"`)})
	want := []expectedDetail{{"tree" + strings.Repeat("[0]", 60), "TOO_LONG", `"abcd"`, `{"max":3}`, "must be at most 3 characters long"}}
	if diff := cmp.Diff(want, details(t, got.fault.Details), cmp.AllowUnexported(expectedDetail{})); diff != "" {
		t.Error(diff)
	}
}

func TestBody_DetailsAreBounded(t *testing.T) {
	got := send(t, call{body: `{"name":"ab","metadata":{"a":[` + strings.Repeat(`1e999,`, 500) + `1]}}`})
	if n := len(got.fault.Details); n != 100 {
		t.Errorf("%d details, want 100", n)
	}
}
