package oapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
)

const thingID = "0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f"

func TestParameters(t *testing.T) {
	unicode := "must be valid Unicode text without NUL characters"
	page := `{"max":1000,"min":1}`
	tests := map[string]struct {
		target string
		header map[string]string
		want   []expectedDetail
	}{
		"none":                            {target: "/things"},
		"all good":                        {target: "/things?page=2&offset=-5&ratio=1e2&on=true&color=red&version=10&search=ab&since=2026-01-31T12:00:00Z&tag=a&tag=b&ids=1,2", header: map[string]string{"If-Match": `"3"`}},
		"unknown headers":                 {target: "/things", header: map[string]string{"X-Whatever": "1"}},
		"not a number":                    {target: "/things?page=abc", want: []expectedDetail{{"page", "INVALID_TYPE", `"abc"`, `{"type":"integer"}`, "must be a whole number"}}},
		"exponent":                        {target: "/things?page=1e2", want: []expectedDetail{{"page", "INVALID_TYPE", `"1e2"`, `{"type":"integer"}`, "must be a whole number"}}},
		"sign":                            {target: "/things?page=%2B1", want: []expectedDetail{{"page", "INVALID_TYPE", `"+1"`, `{"type":"integer"}`, "must be a whole number"}}},
		"empty":                           {target: "/things?page=", want: []expectedDetail{{"page", "INVALID_TYPE", `""`, `{"type":"integer"}`, "must be a whole number"}}},
		"fraction":                        {target: "/things?page=1.5", want: []expectedDetail{{"page", "NOT_INTEGER", `"1.5"`, `{"type":"integer"}`, "must be a whole number"}}},
		"whole fraction":                  {target: "/things?page=1.0", want: []expectedDetail{{"page", "NOT_INTEGER", `"1.0"`, `{"type":"integer"}`, "must be a whole number"}}},
		"too small":                       {target: "/things?page=0", want: []expectedDetail{{"page", "TOO_SMALL", `"0"`, page, "must be at least 1"}}},
		"too big":                         {target: "/things?page=1001", want: []expectedDetail{{"page", "TOO_BIG", `"1001"`, page, "must be at most 1000"}}},
		"20 digits":                       {target: "/things?offset=12345678901234567890", want: []expectedDetail{{"offset", "TOO_BIG", `"12345678901234567890"`, `{"max":9223372036854775807}`, "must be at most 9223372036854775807"}}},
		"20 digits, negative":             {target: "/things?offset=-12345678901234567890", want: []expectedDetail{{"offset", "TOO_SMALL", `"-12345678901234567890"`, `{"min":-9223372036854775808}`, "must be at least -9223372036854775808"}}},
		"repeated":                        {target: "/things?page=1&page=2", want: []expectedDetail{{"page", "CUSTOM", `["1","2"]`, `{"max":1}`, "is given more than once"}}},
		"boolean":                         {target: "/things?on=1", want: []expectedDetail{{"on", "INVALID_TYPE", `"1"`, `{"type":"boolean"}`, "must be true or false"}}},
		"number":                          {target: "/things?ratio=NaN", want: []expectedDetail{{"ratio", "INVALID_TYPE", `"NaN"`, `{"type":"number"}`, "must be a number"}}},
		"enum":                            {target: "/things?color=pink", want: []expectedDetail{{"color", "INVALID_ENUM_VALUE", `"pink"`, `{"allowed":["red","green","blue"]}`, "must be one of red, green, blue"}}},
		"enum of numbers":                 {target: "/things?version=8", want: []expectedDetail{{"version", "INVALID_ENUM_VALUE", `"8"`, `{"allowed":[7,10]}`, "must be one of 7, 10"}}},
		"text":                            {target: "/things?search=a", want: []expectedDetail{{"search", "TOO_SHORT", `"a"`, `{"max":5,"min":2}`, "must be at least 2 characters long"}}},
		"NUL":                             {target: "/things?search=a%00b", want: []expectedDetail{{"search", "INVALID_FORMAT", `"a\u0000b"`, `{"format":"utf-8"}`, unicode}}},
		"not UTF-8":                       {target: "/things?search=a%ffb", want: []expectedDetail{{"search", "INVALID_FORMAT", `"a�b"`, `{"format":"utf-8"}`, unicode}}},
		"date-time":                       {target: "/things?since=yesterday", want: []expectedDetail{{"since", "INVALID_FORMAT", `"yesterday"`, `{"format":"date-time"}`, "must be a date and time with its zone, such as 2026-01-31T12:00:00Z"}}},
		"list item":                       {target: "/things?tag=a&tag=long", want: []expectedDetail{{"tag[1]", "TOO_LONG", `"long"`, `{"max":3}`, "must be at most 3 characters long"}}},
		"long list":                       {target: "/things?tag=a&tag=b&tag=c", want: []expectedDetail{{"tag", "ARRAY_TOO_LONG", `["a","b","c"]`, `{"max":2}`, "must have at most 2 items"}}},
		"split list":                      {target: "/things?ids=1,x", want: []expectedDetail{{"ids[1]", "INVALID_TYPE", `"x"`, `{"type":"integer"}`, "must be a whole number"}}},
		"split list, twice":               {target: "/things?ids=1&ids=2", want: []expectedDetail{{"ids", "CUSTOM", `["1","2"]`, `{"max":1}`, "is given more than once"}}},
		"split list, same":                {target: "/things?ids=1,1", want: []expectedDetail{{"ids", "CUSTOM", `["1","1"]`, `{"unique":true}`, "must not contain duplicate items"}}},
		"unknown, repeated":               {target: "/things?a=b&a=c", want: []expectedDetail{{"a", "UNRECOGNIZED_KEY", `["b","c"]`, ``, "is not a known query parameter"}}},
		"unknown, a credential elsewhere": {target: "/things?ticket=good", want: []expectedDetail{{"ticket", "UNRECOGNIZED_KEY", ``, ``, "is not a known query parameter"}}},
		"unknown, a key":                  {target: "/things?a=SVC_ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", want: []expectedDetail{{"a", "UNRECOGNIZED_KEY", `"svc_***"`, ``, "is not a known query parameter"}}},
		"unknown":                         {target: "/things?token=secret&a=b", want: []expectedDetail{{"a", "UNRECOGNIZED_KEY", `"b"`, ``, "is not a known query parameter"}, {"token", "UNRECOGNIZED_KEY", ``, ``, "is not a known query parameter"}}},
		"malformed":                       {target: "/things?page=%zz", want: []expectedDetail{{"query", "INVALID_FORMAT", ``, `{"format":"percent-encoding"}`, "is not a well-formed query string"}}},
		"header":                          {target: "/things", header: map[string]string{"If-Match": "3"}, want: []expectedDetail{{"If-Match", "INVALID_PATTERN", `"3"`, `{"pattern":"^\"[0-9]+\"$"}`, `must match the pattern ^"[0-9]+"$`}}},
		"path, and missing":               {target: "/things/12", want: []expectedDetail{{"thingId", "INVALID_FORMAT", `"12"`, `{"format":"uuid"}`, "must be a UUID, such as 0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f"}, {"fields", "REQUIRED", ``, ``, "is required"}}},
		"path, encoded":                   {target: "/things/a%2Fb?fields=a", want: []expectedDetail{{"thingId", "INVALID_FORMAT", `"a/b"`, `{"format":"uuid"}`, "must be a UUID, such as 0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f"}}},
		"path, good":                      {target: "/things/" + thingID + "?fields=a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := send(t, call{method: http.MethodGet, target: test.target, header: test.header})
			if handled := test.want == nil; got.saw.handled != handled {
				t.Errorf("status %d, handled %v: %s", got.status, got.saw.handled, got.text)
			}
			if diff := cmp.Diff(test.want, details(t, got.fault.Details), cmp.AllowUnexported(expectedDetail{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestGuard_ReportsParametersHeadersAndBodyTogether(t *testing.T) {
	got := send(t, call{target: "/things?dry=maybe&x=1", header: map[string]string{"Idempotency-Key": "short"}, body: `{"name":""}`})
	var fields []string
	for _, d := range got.fault.Details {
		fields = append(fields, d.Field+" "+d.Code)
	}
	want := []string{"dry INVALID_TYPE", "x UNRECOGNIZED_KEY", "Idempotency-Key TOO_SHORT", "name TOO_SHORT"}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Error(diff)
	}
}

func TestBody_AsAWhole(t *testing.T) {
	body := func(code string) []string { return []string{"body " + code} }
	tests := map[string]struct {
		call    call
		status  int
		details []string
	}{
		"missing":                          {call{}, 400, body("REQUIRED")},
		"null":                             {call{body: `null`}, 400, body("INVALID_TYPE")},
		"an array":                         {call{body: `[1]`}, 400, body("INVALID_TYPE")},
		"missing but optional":             {call{target: "/open"}, 200, nil},
		"optional and wrong":               {call{target: "/open", body: `{}`}, 400, []string{"name REQUIRED"}},
		"where there is none":              {call{method: "GET", target: "/open", body: `[]`}, 400, body("UNRECOGNIZED_KEY")},
		"empty object where there is none": {call{method: "DELETE", target: "/things/" + thingID, body: ` {} `, header: map[string]string{"Authorization": "Bearer good"}}, 200, nil},
		"members where there is none":      {call{method: "DELETE", target: "/things/" + thingID, body: `{"a":1,"b":null}`, header: map[string]string{"Authorization": "Bearer good"}}, 400, []string{"a UNRECOGNIZED_KEY", "b UNRECOGNIZED_KEY"}},
		"delete without":                   {call{method: "DELETE", target: "/things/" + thingID, header: map[string]string{"Authorization": "Bearer good"}}, 200, nil},
		"delete with":                      {call{method: "DELETE", target: "/things/" + thingID, body: "x", header: map[string]string{"Authorization": "Bearer good"}}, 400, body("UNRECOGNIZED_KEY")},
		"text":                             {call{body: `{"name":"ab"}`, contentType: "text/plain"}, 415, []string{"contentType INVALID_ENUM_VALUE"}},
		"no type":                          {call{body: `{"name":"ab"}`, header: map[string]string{"Content-Type": ""}}, 415, []string{"contentType REQUIRED"}},
		"nonsense type":                    {call{body: `{"name":"ab"}`, contentType: ";;"}, 415, []string{"contentType INVALID_ENUM_VALUE"}},
		"latin-1":                          {call{body: `{"name":"ab"}`, contentType: "application/json; charset=latin1"}, 415, []string{"contentType INVALID_ENUM_VALUE"}},
		"utf-8":                            {call{body: `{"name":"ab"}`, contentType: "application/json; charset=utf-8"}, 200, nil},
		"compressed":                       {call{body: `{"name":"ab"}`, header: map[string]string{"Content-Encoding": "gzip"}}, 415, []string{"contentEncoding INVALID_ENUM_VALUE"}},
		"too large":                        {call{body: `{"name":"` + strings.Repeat("a", 110<<10) + `"}`}, 413, []string{"body TOO_LONG"}},
		"large":                            {call{body: `{"name":"ab","metadata":{"a":"` + strings.Repeat("a", 80<<10) + `"}}`}, 200, nil},
		"bytes":                            {call{target: "/uploads", body: "\x00\x01", contentType: "application/octet-stream"}, 200, nil},
		"bytes, with a limit of their own": {call{target: "/uploads", body: strings.Repeat("x", 150<<10), contentType: "application/octet-stream"}, 200, nil},
		"bytes, too large":                 {call{target: "/uploads", body: strings.Repeat("x", 150<<10+1), contentType: "application/octet-stream"}, 413, []string{"body TOO_LONG"}},
		"bytes, not JSON":                  {call{target: "/uploads", body: "{}"}, 415, []string{"contentType INVALID_ENUM_VALUE"}},
		"bytes, missing":                   {call{target: "/uploads"}, 400, body("REQUIRED")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := send(t, test.call)
			var fields []string
			for _, d := range got.fault.Details {
				fields = append(fields, d.Field+" "+d.Code)
			}
			if got.status != test.status || got.saw.handled != (test.status == 200) {
				t.Errorf("status %d, want %d: %s", got.status, test.status, got.text)
			}
			if diff := cmp.Diff(test.details, fields); diff != "" {
				t.Error(diff)
			}
			if got.saw.handled && got.saw.body != test.call.body && strings.TrimSpace(test.call.body) != "{}" {
				t.Errorf("the handler read %q of %q", got.saw.body, test.call.body)
			}
		})
	}
}

// slowReader is a body of unknown length that records whether it was read.
type slowReader struct {
	left int
	read bool
}

func (d *slowReader) Read(p []byte) (int, error) {
	d.read = true
	if d.left == 0 {
		return 0, io.EOF
	}
	n := min(d.left, len(p))
	d.left -= n
	for i := range n {
		p[i] = ' '
	}
	return n, nil
}

func TestBody_UnknownLength(t *testing.T) {
	tests := map[string]struct {
		method, target string
		header         map[string]string
		size, status   int
		read           bool
	}{
		"over the limit":          {"POST", "/things", map[string]string{"Cookie": "session=good"}, 1 << 20, 413, true},
		"unauthenticated":         {"POST", "/things", nil, 1 << 20, 401, false},
		"without permission":      {"POST", "/things", map[string]string{"Authorization": "Bearer good"}, 1 << 20, 403, false},
		"with a wrong type":       {"POST", "/things", map[string]string{"Cookie": "session=good", "Content-Type": "text/csv"}, 1 << 20, 415, false},
		"empty where not allowed": {"GET", "/open", nil, 0, 200, true},
		"where not allowed":       {"GET", "/open", nil, 5, 400, true},
		"empty where required":    {"POST", "/launches", nil, 0, 400, true},
		"empty where optional":    {"POST", "/open", nil, 0, 200, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			body := &slowReader{left: test.size}
			r := httptest.NewRequestWithContext(t.Context(), test.method, test.target, body)
			r.ContentLength = -1
			r.Header.Set("Content-Type", "application/json")
			for name, value := range test.header {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			newEcho(t, &receivedRequest{}).ServeHTTP(w, r)
			if w.Code != test.status || body.read != test.read {
				t.Errorf("status %d, want %d; read %v, want %v: %s", w.Code, test.status, body.read, test.read, w.Body)
			}
		})
	}
}

func TestBody_TruncatedIsClientError(t *testing.T) {
	for name, announced := range map[string]int64{"announced": 50, "announced as large": 90 << 10, "not announced": -1} {
		var saw receivedRequest
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/open", io.MultiReader(strings.NewReader(`{"name":"ab"}`), errReader{}))
		r.ContentLength = announced
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		newEcho(t, &saw).ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || saw.handled || !strings.Contains(w.Body.String(), "is incomplete") {
			t.Errorf("%s: status %d: %s", name, w.Code, w.Body)
		}
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestSecurity(t *testing.T) {
	type headers = map[string]string
	get := func(target string, h headers) call {
		return call{method: "GET", target: target, header: h, anonymous: true}
	}
	tests := map[string]struct {
		call   call
		status int
		user   string
	}{
		"public":                     {get("/open", nil), 200, ""},
		"public with a bad session":  {get("/open", headers{"Cookie": "session=bad"}), 200, ""},
		"first alternative":          {get("/things", headers{"Cookie": "session=good"}), 200, "session"},
		"second alternative":         {get("/things", headers{"Authorization": "Bearer good"}), 200, "bearer"},
		"none":                       {get("/things", nil), 401, ""},
		"first is wrong":             {get("/things", headers{"Cookie": "session=bad"}), 401, ""},
		"a header before a cookie":   {get("/things", headers{"Cookie": "session=bad", "Authorization": "Bearer good"}), 200, "bearer"},
		"a wrong header decides":     {get("/things", headers{"Cookie": "session=good", "Authorization": "Bearer bad"}), 401, ""},
		"the address before either":  {get("/things/"+thingID+"?fields=a&ticket=good", headers{"Cookie": "session=bad"}), 200, "ticket"},
		"second is wrong":            {get("/things", headers{"Authorization": "Bearer bad"}), 401, ""},
		"our failure":                {get("/things", headers{"Cookie": "session=broken"}), 500, ""},
		"credential in the query":    {get("/things/"+thingID+"?fields=a&ticket=good", nil), 200, "ticket"},
		"wrong one in the query":     {get("/things/"+thingID+"?fields=a&ticket=bad", nil), 401, ""},
		"invalid, but no credential": {get("/things/1", nil), 401, ""},
		"both needed":                {call{method: "DELETE", target: "/things/" + thingID, header: headers{"Authorization": "Bearer good"}}, 200, "bearersession"},
		"one of both":                {call{method: "DELETE", target: "/things/" + thingID}, 401, ""},
		"a role it lacks":            {call{anonymous: true, body: `{`, header: headers{"Authorization": "Bearer good"}}, 403, ""},
		"HEAD is guarded as GET":     {call{method: "HEAD", target: "/things", anonymous: true}, 401, ""},
		"outside the document":       {get("/elsewhere?a=b", nil), 200, ""},
		"x-guard: none":              {get("/raw/5?a=b", nil), 200, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := send(t, test.call)
			if got.status != test.status || got.saw.user != test.user || got.saw.handled != (test.status == 200) {
				t.Errorf("status %d as %q, want %d as %q: %s", got.status, got.saw.user, test.status, test.user, got.text)
			}
		})
	}
}

func TestGuard_PassesOperationToAuthorizer(t *testing.T) {
	got := send(t, call{method: "GET", target: "/things/" + thingID + "?fields=a"})
	want := oapi.Operation{ID: "getThing", Method: "GET", Path: "/things/{thingId}", Params: map[string]string{"thingId": thingID}}
	if diff := cmp.Diff(want, got.saw.op); diff != "" {
		t.Error(diff)
	}
	got = send(t, call{body: `{"name":"ab"}`})
	want = oapi.Operation{ID: "createThing", Method: "POST", Path: "/things", Roles: []string{"owner", "admin"}, AnyOrganization: true}
	if diff := cmp.Diff(want, got.saw.op); diff != "" {
		t.Error(diff)
	}
	got = send(t, call{method: "GET", target: "/open", anonymous: true})
	if !got.saw.op.Public {
		t.Errorf("not public: %+v", got.saw.op)
	}
}

func TestGuard_RefusalKinds(t *testing.T) {
	got := send(t, call{anonymous: true, method: "GET"})
	if got.fault.Kind != fault.Unauthenticated || got.fault.Message == "" {
		t.Errorf("fault %+v", got.fault)
	}
}
